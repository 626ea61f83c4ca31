"""Means of arrays of one, two or four processes, on three meshes each."""

import jax
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P
from sizes import all_but

import shardscope
from shardbook import inputs
from shardbook.problems import one_metric
from shardscope import program

DEVICES = 8
SIZES = (8, 1), (2, 4), (1, 8)
SPECS = P(), P("data"), P(None, "model"), P("model", "data")


@pytest.mark.parametrize(
    "count", all_but([2], [1, 2, 4], "two processes show the same")
)
def test_means(count: int) -> None:
    """All processes get the mean, and send a few bytes for it."""
    if jax.device_count() != DEVICES:
        pytest.skip("the processes have devices of their own")
    expected = [whole.mean() for whole in arrays()]

    seen = shardscope.processes(
        means, processes=count, devices=DEVICES // count
    )

    assert seen == [seen[0]] * count
    for mean, of in seen[0]:
        assert isinstance(mean, float)
        np.testing.assert_allclose(mean, expected[of], rtol=1e-6)


def arrays() -> list[np.ndarray]:
    """Make a float32 and an int32 array, with different means."""
    square = np.arange(64).reshape(8, 8)
    return [square.astype(np.float32), (square**2).astype(np.int32)]


def means() -> list[tuple[float, int]]:
    """Return the means of all arrays, sharded in all ways, in order."""
    found = []
    for sizes in SIZES:
        mesh = inputs.mesh_of(*sizes)
        for spec in SPECS:
            for number, whole in enumerate(arrays()):
                values = inputs.spread(whole, spec, mesh)
                mean = one_metric.one_metric(values, mesh)
                found.append((mean, number))
            sent = program(one_metric._mean, values, mesh).sent()
            assert sent <= 32
    return found


def test_bfloat16_is_not_rounded() -> None:
    """The mean of bfloat16 values has the digits of float32."""
    mesh = inputs.mesh_of(jax.device_count(), 1)
    whole = np.array([256, 1] * 8).astype(jax.numpy.bfloat16)

    mean = one_metric.one_metric(
        inputs.spread(whole, P("data"), mesh), mesh
    )

    assert mean == 128.5


def test_a_second_call_compiles_nothing() -> None:
    """The function is known to jit from call to call."""
    mesh = inputs.mesh_of(jax.device_count(), 1)
    one, other = (
        inputs.spread(np.full(64, value, np.float32), P("data"), mesh)
        for value in (1, 2)
    )
    one_metric.one_metric(one, mesh)
    before = one_metric._mean._cache_size()

    one_metric.one_metric(other, inputs.mesh_of(jax.device_count(), 1))

    assert one_metric._mean._cache_size() == before
