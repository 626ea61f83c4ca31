"""A norm and an MLP with sharded tokens, on meshes of all devices."""

from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from shardbook import inputs
from shardbook.inputs import BLOCK_SPECS
from shardbook.problems.sequence_parallel_block import (
    sequence_parallel_block,
)
from shardscope import program

BATCH, LENGTH, DIM, HIDDEN = 8, 16, 24, 64
TOKENS = P("data", "model")


def arrays() -> tuple[dict[str, Any], Any]:
    """Give params and x, in NumPy; the last token of a row is zeros."""
    params = inputs.block_params(DIM, HIDDEN)
    x = np.array(inputs.normal(BATCH, LENGTH, DIM, seed=3))
    x[:, -1], x[:, -2] = 0, x[:, -2] / 1000
    return {key: np.asarray(each) for key, each in params.items()}, x


def on(mesh: Mesh) -> tuple[Any, Any]:
    """Place params and x."""
    params, x = arrays()
    return (
        inputs.laid_out(params, BLOCK_SPECS, mesh),
        inputs.laid_out(x, TOKENS, mesh),
    )


def forward_on(mesh: Mesh) -> Any:
    """Give the block, compiled."""
    return jax.jit(lambda *given: sequence_parallel_block(*given, mesh))


def step_on(mesh: Mesh) -> Any:
    """Give the gradients of the sum of squares, compiled."""

    def loss(params: Any, x: Any) -> Any:
        return (sequence_parallel_block(params, x, mesh) ** 2).sum()

    return jax.jit(jax.grad(loss, argnums=(0, 1)))


def in_numpy() -> tuple[Any, dict[str, Any], Any]:
    """Compute y and the gradients of the sum of squares, in float64."""
    params, x = jax.tree.map(lambda each: each.astype("d"), arrays())
    scale, up, down = (params[key] for key in ("scale", "up", "down"))
    root = np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-6)
    normed = x / root * scale
    before = normed @ up
    # The tanh approximation of GELU, and its derivative.
    factor = np.sqrt(2 / np.pi)
    tanh = np.tanh(factor * (before + 0.044715 * before**3))
    hidden = before * (1 + tanh) / 2
    inner = factor * (1 + 3 * 0.044715 * before**2)
    slope = (1 + tanh) / 2 + before * (1 - tanh**2) / 2 * inner
    y = x + hidden @ down

    of_y = 2 * y
    of_before = of_y @ down.T * slope
    of_normed = of_before @ up.T
    of_ratio = of_normed * scale
    along = (of_ratio * x).mean(axis=-1, keepdims=True)
    gradients = {
        "scale": (of_normed * x / root).sum(axis=(0, 1)),
        "up": np.einsum("bld,blh->dh", normed, of_before),
        "down": np.einsum("blh,bld->hd", hidden, of_y),
    }
    return y, gradients, of_y + of_ratio / root - x * along / root**3


def test_values(mesh: Mesh) -> None:
    """The result is NumPy's, float32, and sharded like x."""
    y = forward_on(mesh)(*on(mesh))

    np.testing.assert_allclose(y, in_numpy()[0], rtol=1e-5, atol=1e-5)
    assert y.dtype == np.float32
    assert y.sharding.is_equivalent_to(NamedSharding(mesh, TOKENS), 3)


def test_gradients(mesh: Mesh) -> None:
    """The gradients are NumPy's, and sharded like their arrays."""
    params, x = on(mesh)
    _, expected, of_tokens = in_numpy()

    gradients, of_x = step_on(mesh)(params, x)

    for key, want in expected.items():
        limit = 1e-5 * np.abs(want).max()
        np.testing.assert_allclose(gradients[key], want, atol=limit)
        like = params[key]
        found = gradients[key].sharding
        assert found.is_equivalent_to(like.sharding, like.ndim)
    np.testing.assert_allclose(of_x, of_tokens, rtol=1e-4, atol=1e-3)
    assert of_x.sharding.is_equivalent_to(x.sharding, 3)


def test_the_same_gradient_of_scale_everywhere(mesh: Mesh) -> None:
    """Each device has the sum over the tokens of all devices."""
    gradients, _ = step_on(mesh)(*on(mesh))

    shards = gradients["scale"].addressable_shards
    assert len({np.asarray(each.data).tobytes() for each in shards}) == 1


def test_what_the_devices_send(mesh: Mesh) -> None:
    """Twice the tokens, and in a gradient four times."""
    data, model = mesh.shape["data"], mesh.shape["model"]
    placed = on(mesh)
    forward = program(forward_on(mesh), *placed)
    both = program(step_on(mesh), *placed)
    tokens = 4 * BATCH // data * LENGTH * DIM * (model - 1) // model
    kernels = 2 * 4 * DIM * HIDDEN // model
    # A ring sends so many times the bytes of what it adds up.
    times = 2 * (data - 1) / data
    scale = 2 * (data * model - 1) / (data * model) * 4 * DIM

    assert forward.sent() == 2 * tokens
    assert forward.collectives == (
        {"all-gather": 1, "reduce-scatter": 1} if model > 1 else {}
    )
    everywhere = both.sent() - 4 * tokens
    assert everywhere == int(times * kernels + scale)
    if model > 1:
        assert both.sent("model") >= 4 * tokens
        assert both.collectives["all-gather"] == 2
        assert both.collectives["reduce-scatter"] == 2


def test_what_a_device_keeps() -> None:
    """The norm keeps the device's own tokens, not those of all."""
    count = jax.device_count()
    mesh = inputs.mesh_of(1, count)
    params = inputs.laid_out(inputs.block_params(32, 16), BLOCK_SPECS, mesh)
    x = inputs.laid_out(inputs.normal(4, 64, 32), TOKENS, mesh)

    report = program(step_on(mesh), params, x)

    whole, own, hidden = x.nbytes, x.nbytes // count, x.nbytes // 2 // count
    limit = 4 * whole + 5 * own + 4 * hidden
    assert report.memory.temporaries < limit


def test_sizes_that_do_not_divide() -> None:
    """Rows, tokens or hidden units that leave a remainder."""
    count = jax.device_count()
    if count == 1:
        pytest.skip("one device divides every size")
    params, x = arrays()
    odd = params | {
        "up": params["up"][:, :-1],
        "down": params["down"][:-1],
    }

    for given, tokens, mesh in (
        (params, x[:-1], inputs.mesh_of(count, 1)),
        (params, x[:, :-1], inputs.mesh_of(1, count)),
        (odd, x, inputs.mesh_of(1, count)),
    ):
        with pytest.raises(ValueError, match="evenly divi"):
            sequence_parallel_block(given, tokens, mesh)
