"""A step on parameters that are sharded over the devices of the batch."""

from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from shardbook import inputs
from shardbook.problems.fsdp_step import fsdp_step
from shardscope import program

SPECS = {"kernel": P(None, "data"), "bias": P("data"), "scale": P()}


def loss(params: Any, batch: Any) -> jax.Array:
    """Return the mean squared error of a layer with a scale."""
    output = batch["x"] @ params["kernel"] * params["scale"]
    return ((output + params["bias"] - batch["y"]) ** 2).mean()


def numbers() -> Any:
    """Give the parameters, in NumPy."""
    rng = np.random.default_rng(0)
    shapes = {"kernel": (5, 16), "bias": (16,), "scale": ()}
    return {
        name: np.float32(rng.normal(size=shape))
        for name, shape in shapes.items()
    }


def test_values_and_sharding(mesh: Mesh) -> None:
    """Two steps give NumPy's values, each laid out as before."""
    step = fsdp_step(loss, SPECS, mesh, 0.25)
    params = inputs.laid_out(numbers(), SPECS, mesh)
    batch = inputs.examples(8, 5, 16, mesh)
    x, y = np.asarray(batch["x"]), np.asarray(batch["y"])
    expected = numbers()
    for _ in range(2):
        kernel, bias, scale = expected.values()
        difference = scale * x @ kernel + bias - y
        gradient = 2 * difference / difference.size
        slopes = {
            "kernel": scale * x.T @ gradient,
            "bias": gradient.sum(axis=0),
            "scale": (gradient * (x @ kernel)).sum(),
        }
        expected = {k: v - 0.25 * slopes[k] for k, v in expected.items()}

        params, value = step(params, batch)

        np.testing.assert_allclose(value, (difference**2).mean(), rtol=1e-5)
        assert value.sharding.is_equivalent_to(NamedSharding(mesh, P()), 0)
        assert params.keys() == expected.keys()
        for name, array in params.items():
            np.testing.assert_allclose(
                array, expected[name], rtol=1e-4, atol=1e-5
            )
            spec = NamedSharding(mesh, SPECS[name])
            assert array.sharding.is_equivalent_to(spec, array.ndim)


def test_what_the_devices_send_and_hold(mesh: Mesh) -> None:
    """Each array is gathered once, and its gradient scattered once."""
    n = mesh.shape["data"]
    step = fsdp_step(loss, SPECS, mesh, 0.25)
    params = inputs.laid_out(numbers(), SPECS, mesh)
    report = program(step, params, inputs.examples(8, 5, 16, mesh))
    sharded, replicated = 4 * (5 * 16 + 16), 4
    wanted = {"all-gather": 2, "all-reduce": 1, "reduce-scatter": 2}
    batch = 4 * 8 * (5 + 16) // n

    assert report.collectives == (wanted if n > 1 else {})
    # The loss is as large as the scale.
    everything = sharded + replicated + 4
    assert report.sent("data") == 2 * everything * (n - 1) // n
    assert report.sent() == report.sent("data")
    assert report.memory.arguments == sharded // n + replicated + batch
    assert report.memory.donated == sharded // n + replicated
    assert report.transfers == {}


def test_parameters_are_donated(mesh: Mesh) -> None:
    """After a step, the old parameters are gone."""
    params = inputs.laid_out(numbers(), SPECS, mesh)
    batch = inputs.examples(8, 5, 16, mesh)

    fsdp_step(loss, SPECS, mesh, 0.25)(params, batch)

    assert all(array.is_deleted() for array in params.values())
    assert not any(array.is_deleted() for array in batch.values())


def test_sizes_that_do_not_divide() -> None:
    """An axis of a parameter, or a batch, that leaves a remainder."""
    if jax.device_count() < 2:
        pytest.skip("one device divides every size")
    mesh = inputs.mesh_of(jax.device_count(), 1)
    batch = {"x": np.ones((8, 5), "f"), "y": np.ones((8, 16), "f")}
    part = {name: array[:7] for name, array in batch.items()}

    with pytest.raises(ValueError, match="evenly divisible"):
        fsdp_step(loss, SPECS | {"kernel": P("data")}, mesh, 0.25)(
            numbers(), batch
        )
    with pytest.raises(ValueError, match="evenly divisible"):
        fsdp_step(loss, SPECS, mesh, 0.25)(numbers(), part)
