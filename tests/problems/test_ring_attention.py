"""Attention around a ring, on meshes of all the devices there are."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from shardbook import inputs
from shardbook.problems.ring_attention import ring_attention
from shardscope import program

BATCH, LENGTH, HEADS, HEAD_DIM = 8, 64, 3, 8
SPEC = P("data", "model")


def arrays(scale: float = 1.0, offset: float = 0.0) -> list[Any]:
    """Give queries, keys and values, in NumPy."""
    q, k, v = (
        np.asarray(inputs.normal(BATCH, LENGTH, HEADS, HEAD_DIM, seed=seed))
        for seed in range(3)
    )
    return [scale * q + offset, scale * k - offset, v]


def on(mesh: Mesh, given: list[Any]) -> list[jax.Array]:
    """Place queries, keys and values."""
    return [inputs.laid_out(each, SPEC, mesh) for each in given]


def step_on(mesh: Mesh) -> Any:
    """Give output and gradients of half the sum of squares, compiled."""

    def loss(*three: Any) -> Any:
        y = ring_attention(*three, mesh)
        return (y.astype(jnp.float32) ** 2).sum() / 2, y

    def both(*three: Any) -> Any:
        slopes, y = jax.grad(loss, argnums=(0, 1, 2), has_aux=True)(*three)
        return (y, *slopes)

    return jax.jit(both)


def numpy_attention(given: list[Any]) -> list[Any]:
    """Compute output and gradients in NumPy, in float64."""
    q, k, v = (np.asarray(each, "d").swapaxes(1, 2) for each in given)
    scores = q @ k.swapaxes(2, 3) / np.sqrt(HEAD_DIM)
    scores[..., np.triu(np.ones((LENGTH,) * 2, bool), 1)] = -np.inf
    weights = np.exp(scores - scores.max(axis=3, keepdims=True))
    weights /= weights.sum(axis=3, keepdims=True)
    y = weights @ v
    of_weights = y @ v.swapaxes(2, 3)
    mean = (of_weights * weights).sum(axis=3, keepdims=True)
    of_scores = weights * (of_weights - mean) / np.sqrt(HEAD_DIM)
    of_k = of_scores.swapaxes(2, 3) @ q
    found = (y, of_scores @ k, of_k, weights.swapaxes(2, 3) @ y)
    return [each.swapaxes(1, 2) for each in found]


def assert_near(found: Any, wanted: Any, part: float) -> None:
    """Compare arrays, up to a part of the largest entry."""
    for got, want in zip(found, wanted, strict=True):
        limit = part * np.abs(want).max()
        np.testing.assert_allclose(
            np.asarray(got, "d"), want, rtol=0, atol=limit
        )


def test_values_and_shardings(mesh: Mesh) -> None:
    """Output and gradients are NumPy's, sharded like the arguments."""
    found = step_on(mesh)(*on(mesh, arrays()))

    assert_near(found, numpy_attention(arrays()), 1e-5)
    for each in found:
        assert each.dtype == np.float32
        sharding = NamedSharding(mesh, SPEC)
        assert each.sharding.is_equivalent_to(sharding, 4)


@pytest.mark.parametrize(("scale", "offset"), [(18, 0), (1, 10), (1, -20)])
def test_large_scores(mesh: Mesh, scale: float, offset: float) -> None:
    """Scores of thousands, or far below 0, overflow nothing."""
    given = arrays(scale, offset)

    found = step_on(mesh)(*on(mesh, given))

    assert_near(found, numpy_attention(given), 2e-3)


@pytest.mark.parametrize(("scale", "arrays_compared"), [(8, 1), (1, 4)])
def test_bfloat16(mesh: Mesh, scale: float, arrays_compared: int) -> None:
    """Of bfloat16 arrays, scores and sums are not rounded."""
    narrow = [jnp.asarray(x, jnp.bfloat16) for x in arrays(scale)]
    wanted = numpy_attention([np.float32(each) for each in narrow])

    found = step_on(mesh)(*on(mesh, narrow))

    assert {each.dtype for each in found} == {jnp.dtype(jnp.bfloat16)}
    # Large scores leave gradients that are differences of rounded ones.
    some = slice(arrays_compared)
    assert_near(found[some], wanted[some], 0.01)


def test_what_a_device_sends_and_holds(mesh: Mesh) -> None:
    """Blocks take a hop less than there are devices, both ways."""
    n = mesh.shape["model"]
    placed = on(mesh, arrays())
    block = placed[0].nbytes // mesh.size
    scores = block // HEAD_DIM * LENGTH // n
    forward = program(ring_attention, *placed, mesh)
    both = program(step_on(mesh), *placed)

    assert forward.sent("model") == forward.sent() == 2 * (n - 1) * block
    assert both.sent("model") == both.sent() == 4 * (n - 1) * block
    assert set(both.collectives) <= {"collective-permute"}
    assert forward.memory.temporaries <= 8 * block + 4 * scores
    assert both.memory.temporaries <= (3 * n + 8) * block + 8 * scores


def test_the_work_is_that_of_attention_without_a_mask(mesh: Mesh) -> None:
    """A device multiplies its queries by all keys, and by all values."""
    report = program(ring_attention, *on(mesh, arrays()), mesh)
    products = 2 * 2 * BATCH * HEADS * LENGTH**2 * HEAD_DIM

    assert report.flops.total == products // mesh.size


def test_sizes_that_do_not_divide() -> None:
    """Tokens or sequences that leave a remainder are refused by jax."""
    count = jax.device_count()
    if count == 1:
        pytest.skip("one device divides every size")

    for grid, cut in (
        ((1, count), [each[:, :-1] for each in arrays()]),
        ((count, 1), [each[:-1] for each in arrays()]),
    ):
        with pytest.raises(ValueError, match="evenly divi"):
            ring_attention(*cut, inputs.mesh_of(*grid))
