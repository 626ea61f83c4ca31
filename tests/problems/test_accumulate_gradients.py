"""The gradients of a batch that is taken in microbatches."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, PartitionSpec as P

from shardbook import inputs
from shardbook.problems.accumulate_gradients import accumulate_gradients
from shardscope import program

COUNTS = pytest.mark.parametrize("count", [1, 4, 8])
# Of a kernel, a bias and a scale, float32.
BYTES = 4 * (5 * 16 + 16 + 1)


def loss(params: Any, batch: Any) -> jax.Array:
    """Return the mean squared error of a layer with a scale."""
    output = batch["x"] @ params["kernel"] * params["scale"]
    return ((output + params["bias"] - batch["y"]) ** 2).mean()


def arguments(mesh: Mesh, rows: int = 64) -> tuple[Any, Any]:
    """Give replicated parameters, and a batch that is sharded by rows."""
    rng = np.random.default_rng(0)
    shapes = {"kernel": (5, 16), "bias": (16,), "scale": ()}
    params = {
        name: np.float32(rng.normal(size=shape))
        for name, shape in shapes.items()
    }
    placed = inputs.laid_out(params, P(), mesh)
    return placed, inputs.examples(rows, 5, 16, mesh)


@COUNTS
@pytest.mark.parametrize("jit", [False, True])
def test_values_and_sharding(mesh: Mesh, count: int, jit: bool) -> None:
    """Loss and gradients are NumPy's, and the same on all devices."""
    params, batch = arguments(mesh)
    x, y = (np.asarray(batch[name], float) for name in "xy")
    kernel, bias, scale = (
        np.asarray(params[name], float)
        for name in ("kernel", "bias", "scale")
    )
    difference = scale * x @ kernel + bias - y
    slope = 2 * difference / difference.size
    expected = {
        "kernel": scale * x.T @ slope,
        "bias": slope.sum(axis=0),
        "scale": (slope * (x @ kernel)).sum(),
    }
    function = accumulate_gradients(loss, mesh, count)

    value, found = (jax.jit(function) if jit else function)(params, batch)

    np.testing.assert_allclose(value, (difference**2).mean(), rtol=1e-5)
    assert found.keys() == expected.keys()
    for name, array in found.items():
        np.testing.assert_allclose(
            array, expected[name], rtol=1e-4, atol=1e-5
        )
    for array in (value, *found.values()):
        assert array.dtype == np.float32
        assert array.sharding.is_fully_replicated
        assert array.sharding.device_set == set(mesh.devices.flat)
        copies = [
            np.asarray(shard.data) for shard in array.addressable_shards
        ]
        assert all((each == copies[0]).all() for each in copies)
    assert not any(array.is_deleted() for array in params.values())


@COUNTS
def test_one_all_reduce(mesh: Mesh, count: int) -> None:
    """Gradients and loss are added up once, whatever the count is."""
    function = accumulate_gradients(loss, mesh, count)

    report = program(function, *arguments(mesh))

    found = [
        (each.kind, each.axes, each.bytes, each.times)
        for each in report.communication
    ]
    wanted = [("all-reduce", ("data",), BYTES + 4, 1)]
    assert found == (wanted if mesh.shape["data"] > 1 else [])
    assert report.transfers == {}


def test_memory_of_a_microbatch(mesh: Mesh) -> None:
    """The backward pass keeps the intermediates of one microbatch."""
    hidden, rows = 256, 2048
    params = inputs.laid_out(inputs.mlp_params(16, hidden, 16), P(), mesh)
    batch = inputs.examples(rows, 16, 16, mesh)
    kept = 4 * hidden * rows // mesh.shape["data"]

    def temporaries(count: int) -> int:
        function = accumulate_gradients(inputs.squared_error, mesh, count)
        return program(function, params, batch).memory.temporaries

    assert temporaries(1) > 2 * kept
    assert temporaries(16) < temporaries(1) / 3


def test_sums_are_float32(mesh: Mesh) -> None:
    """A bfloat16 sum of 512 ones would be 256."""
    ones = np.ones((512 * mesh.shape["data"], 3), np.float32)
    batch = inputs.laid_out({"x": ones}, P("data"), mesh)
    params = inputs.laid_out(jnp.ones(3, jnp.bfloat16), P(), mesh)

    def total(params: Any, batch: Any) -> jax.Array:
        return (batch["x"] @ params).mean()

    value, found = accumulate_gradients(total, mesh, 512)(params, batch)

    assert value == 3
    assert found.dtype == jnp.bfloat16
    assert found.tolist() == [1, 1, 1]


def test_traced_once(mesh: Mesh) -> None:
    """A second call doesn't trace the loss again; other rows do."""
    traces = []

    def counted(params: Any, batch: Any) -> jax.Array:
        traces.append(len(batch["x"]))
        return loss(params, batch)

    function = accumulate_gradients(counted, mesh, 4)
    function(*arguments(mesh))
    before = len(traces)
    function(*arguments(mesh))

    assert len(traces) == before
    function(*arguments(mesh, rows=96))
    assert traces[-1] == 96 // 4 // mesh.shape["data"]


@pytest.mark.parametrize("jit", [False, True])
def test_rows_that_do_not_divide(mesh: Mesh, jit: bool) -> None:
    """The error names the rows, the devices and the count."""
    devices = mesh.shape["data"]
    params, batch = arguments(mesh, rows=56)
    function = accumulate_gradients(loss, mesh, 3)
    call = jax.jit(function) if jit else function

    with pytest.raises(
        ValueError, match=f"^56 rows .* {devices} devices .* count=3"
    ):
        call(params, batch)


def test_rows_that_the_devices_do_not_divide() -> None:
    """A batch from the host is refused in the same words."""
    if jax.device_count() < 2:
        pytest.skip("one device divides any number of rows")
    mesh = inputs.mesh_of(2, 1)
    params, _ = arguments(mesh)
    batch = inputs.numpy_examples(15, 5, 16)

    with pytest.raises(ValueError, match=r"^15 rows .* 2 devices"):
        accumulate_gradients(loss, mesh, 1)(params, batch)


def test_sharded_parameters(mesh: Mesh) -> None:
    """Those of FSDP are refused, because they would be gathered."""
    if mesh.shape["data"] < 2:
        pytest.skip("on one device, nothing is sharded")
    params, batch = arguments(mesh)
    params["bias"] = inputs.laid_out(params["bias"], P("data"), mesh)
    function = accumulate_gradients(loss, mesh, 4)

    with pytest.raises(ValueError, match="does not match the sharding"):
        function(params, batch)
