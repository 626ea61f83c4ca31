"""A training step on meshes of all the devices that there are."""

from typing import Any

import jax
import numpy as np
import pytest
from flax import nnx
from jax.sharding import Mesh

from shardbook import inputs
from shardbook.problems.data_parallel_step import data_parallel_step
from shardscope import program

# Of the parameters: two kernels and two biases, float32.
BYTES = 4 * 2 * (16 * 16 + 16)


def arguments(mesh: Mesh, tx: Any, sharded: bool = False) -> list[Any]:
    """Give a model, its optimizer and a batch, laid out."""
    return [
        inputs.counted_mlp(mesh),
        inputs.optimizer_on(mesh, tx, sharded=sharded),
        inputs.examples(32, 16, 16, mesh),
    ]


def made(mesh: Mesh, tx: Any, sharded: bool = False) -> Any:
    """Give the step for such arguments."""
    model, optimizer, _ = arguments(mesh, tx, sharded)
    return data_parallel_step(model, optimizer, mesh)


def loss_and_gradient(
    params: dict[str, np.ndarray], x: np.ndarray, y: np.ndarray
) -> tuple[float, dict[str, np.ndarray]]:
    """Compute the mean squared error and its gradient, layer by layer."""
    hidden = x @ params["up.kernel"] + params["up.bias"]
    root = (2 / np.pi) ** 0.5
    tanh = np.tanh(root * (hidden + 0.044715 * hidden**3))
    gelu = hidden * (1 + tanh) / 2
    error = gelu @ params["down.kernel"] + params["down.bias"] - y
    d_output = 2 * error / error.size
    inner = root * (1 + 3 * 0.044715 * hidden**2)
    slope = (1 + tanh) / 2 + hidden / 2 * (1 - tanh**2) * inner
    d_hidden = d_output @ params["down.kernel"].T * slope
    return float((error**2).mean()), {
        "up.kernel": x.T @ d_hidden,
        "up.bias": d_hidden.sum(axis=0),
        "down.kernel": gelu.T @ d_output,
        "down.bias": d_output.sum(axis=0),
    }


def parameters(model: Any) -> dict[str, np.ndarray]:
    """Give the parameters as float64, by their paths."""
    arrays = nnx.to_pure_dict(nnx.state(model))
    return {
        f"{layer}.{name}": np.asarray(arrays[layer][name], float)
        for layer in ("up", "down")
        for name in ("kernel", "bias")
    }


@pytest.mark.parametrize("sharded", [False, True])
def test_values(mesh: Mesh, sharded: bool) -> None:
    """Losses and parameters are NumPy's; other Variables are written."""
    model, optimizer, batch = arguments(mesh, inputs.momentum(), sharded)
    step = data_parallel_step(model, optimizer, mesh)
    params = parameters(model)
    trace = dict.fromkeys(params, np.zeros(()))
    x, y = (np.asarray(batch[name], float) for name in "xy")
    for _ in range(3):
        expected, gradient = loss_and_gradient(params, x, y)
        trace = {k: gradient[k] + 0.9 * trace[k] for k in params}
        params = {k: params[k] - 0.1 * trace[k] for k in params}

        loss = step(model, optimizer, batch)

        assert loss.dtype == np.float32
        np.testing.assert_allclose(loss, expected, rtol=1e-5)
    for name, value in parameters(model).items():
        np.testing.assert_allclose(value, params[name], atol=1e-5)
    assert model.calls[...] == 3
    assert optimizer.step[...] == 3


def test_one_all_reduce(mesh: Mesh) -> None:
    """It adds the gradients and the loss, over "data" alone."""
    batch = inputs.numpy_examples(32, 16, 16)
    model, optimizer, placed = arguments(mesh, inputs.adam())
    data = mesh.shape["data"]

    for each in (batch, placed):
        report = program(made(mesh, inputs.adam()), model, optimizer, each)

        found = [
            (collective.kind, collective.axes, collective.bytes)
            for collective in report.communication
        ]
        wanted = [("all-reduce", ("data",), BYTES + 4)] if data > 1 else []
        assert found == wanted
        rows = 2 * 4 * 32 * 16 // data
        assert report.memory.arguments == 3 * BYTES + 4 + 4 + 4 + rows


@pytest.mark.parametrize("sharded", [False, True])
def test_layouts_donation_and_traces(mesh: Mesh, sharded: bool) -> None:
    """Arrays are donated and replaced by others in the same layout."""
    model, optimizer, batch = arguments(mesh, inputs.adam(), sharded)
    step = made(mesh, inputs.adam(), sharded)
    traces = []
    forward = type(model).__call__
    before = jax.tree.leaves((model, optimizer))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            type(model),
            "__call__",
            lambda self, x: traces.append(1) or forward(self, x),
        )
        for _ in range(3):
            step(model, optimizer, batch)

    for old, new in zip(
        before, jax.tree.leaves((model, optimizer)), strict=True
    ):
        assert old.is_deleted()
        assert new.sharding.is_equivalent_to(old.sharding, new.ndim)
    assert len(traces) == 1
    assert not batch["x"].is_deleted()


def test_rows_that_do_not_divide() -> None:
    """A batch that leaves a remainder is refused."""
    if jax.device_count() < 2:
        pytest.skip("one device divides any number of rows")
    mesh = inputs.mesh_of(2, 1)
    model, optimizer, _ = arguments(mesh, inputs.adam())

    batch = inputs.numpy_examples(15, 16, 16)

    with pytest.raises(ValueError, match="should evenly divide"):
        made(mesh, inputs.adam())(model, optimizer, batch)
