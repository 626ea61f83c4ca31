"""Batches that one, two or four processes feed, on three meshes each."""

import threading
from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec as P

import shardscope
from shardbook import inputs
from shardbook.problems.feed_batch import feed_batch

DEVICES = 8
SIZES = (8, 1), (2, 4), (1, 8)


@pytest.fixture(scope="module", params=[1, 2, 4])
def seen(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    """Feed batches, once for each number of processes."""
    if jax.device_count() != DEVICES:
        pytest.skip("the processes have devices of their own")
    count: int = request.param
    return shardscope.processes(
        feed, processes=count, devices=DEVICES // count
    )


def feed() -> dict[str, Any]:
    """Feed batches in this process, and require that each is right."""
    for data, model in SIZES:
        mesh = inputs.mesh_of(data, model)
        for whole in (
            np.arange(96, dtype=np.float32).reshape(16, 3, 2),
            np.arange(24, dtype=np.int32),
        ):
            places, _ = np.vectorize(ours)(mesh.devices).nonzero()
            count = len(whole) // data
            part = whole[count * min(places) : count * (max(places) + 1)]
            with jax.transfer_guard_device_to_device("disallow_explicit"):
                batch = feed_batch(part, mesh)
            assert batch.shape == whole.shape
            assert batch.dtype == whole.dtype
            assert batch.sharding == NamedSharding(mesh, P("data"))
            for shard in batch.addressable_shards:
                (place,), _ = np.where(mesh.devices == shard.device)
                rows = whole[count * place : count * (place + 1)]
                np.testing.assert_array_equal(shard.data, rows)
    mesh = inputs.mesh_of(8, 1)
    usual = np.ones((16, 4), np.float32)
    last = jax.process_index() == jax.process_count() - 1
    return {
        "shape": refused(usual[:8] if last else usual, mesh),
        "rank": refused(usual[..., None] if last else usual, mesh),
        "dtype": refused(np.int32(usual) if last else usual, mesh),
        "odd": refused(usual[:7], mesh),
        "ready": ready(usual, mesh),
    }


def ready(rows: np.ndarray, mesh: jax.sharding.Mesh) -> list[bool]:
    """Tell whether a step has ended, without and with a check of rows."""
    may_end = threading.Event()

    def held(x: np.ndarray) -> np.ndarray:
        may_end.wait()
        return x

    @jax.jit
    @jax.shard_map(
        mesh=mesh, in_specs=P("data"), out_specs=P(), check_vma=False
    )
    def step(x: jax.Array) -> jax.Array:
        return jax.lax.psum(jax.pure_callback(held, x, x), "data")

    sharding = NamedSharding(mesh, P("data"))
    batch = jax.make_array_from_process_local_data(sharding, rows)
    loss = step(batch)
    jax.make_array_from_process_local_data(sharding, rows)
    without = loss.is_ready()
    threading.Timer(2, may_end.set).start()
    feed_batch(rows, mesh)
    return [without, loss.is_ready()]


def ours(device: jax.Device) -> bool:
    """Tell whether a device is one of this process."""
    return device.process_index == jax.process_index()


def refused(rows: np.ndarray, mesh: jax.sharding.Mesh) -> str:
    """Give the error with which rows are refused; empty if they aren't."""
    try:
        feed_batch(rows, mesh)
    except ValueError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("shape", ("float32[16, 4]", "float32[8, 4]")),
        ("rank", ("float32[16, 4]", "float32[16, 4, 1]")),
        ("dtype", ("float32[16, 4]", "int32[16, 4]")),
    ],
)
def test_rows_that_differ(
    seen: list[dict[str, Any]], what: str, words: tuple[str, str]
) -> None:
    """Rows of the last process differ: all refuse them with one message."""
    usual, last = words
    every = [usual] * (len(seen) - 1) + [last]
    message = f"the processes' rows differ: {', '.join(every)}"
    if len(seen) == 1:
        message = ""

    assert [each[what] for each in seen] == [message] * len(seen)


def test_rows_that_do_not_divide(seen: list[dict[str, Any]]) -> None:
    """JAX refuses a global batch that "data" does not divide."""
    for each in seen:
        assert f"dimension size is {7 * len(seen)} " in each["odd"]


def test_the_check_waits_for_the_step(seen: list[dict[str, Any]]) -> None:
    """Making an array doesn't wait, but reading a check's result does."""
    if len(seen) == 1:
        pytest.skip("one process has nothing to compare")
    assert [each["ready"] for each in seen] == [[False, True]] * len(seen)
