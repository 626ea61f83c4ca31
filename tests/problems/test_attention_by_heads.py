"""Attention and its gradients, on meshes of all the devices there are."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from shardbook import inputs
from shardbook.problems.attention_by_heads import attention_by_heads
from shardscope import program

BATCH, LENGTH, DIM, HEADS, HEAD_DIM = 8, 6, 24, 8, 4


def arguments(mesh: Mesh, kv_heads: int) -> tuple[Any, Any]:
    """Give placed params and x."""
    return (
        inputs.attention_params(DIM, HEADS, kv_heads, HEAD_DIM, mesh),
        inputs.laid_out(inputs.normal(BATCH, LENGTH, DIM), P("data"), mesh),
    )


def gradient_on(mesh: Mesh) -> Any:
    """Give the gradients of half the sum of squares, compiled."""

    def loss(params: Any, x: Any) -> jax.Array:
        return (attention_by_heads(params, x, mesh) ** 2).sum() / 2

    return jax.jit(jax.grad(loss, argnums=(0, 1)))


def numpy_attention(params: Any, x: Any) -> tuple[Any, Any]:
    """Compute the output and the gradients in NumPy, head by head.

    The gradients are those of half the sum of squares.
    """
    q, k, v, out, x = (
        np.asarray(each, "d")
        for each in (*(params[name] for name in ("q", "k", "v", "out")), x)
    )
    group = q.shape[1] // k.shape[1]
    future = np.triu(np.ones((x.shape[1],) * 2, bool), 1)
    y, kept = np.zeros_like(x), []
    for head in range(q.shape[1]):
        own = head // group
        queries, keys, values = x @ q[:, head], x @ k[:, own], x @ v[:, own]
        scores = queries @ keys.swapaxes(1, 2) / np.sqrt(q.shape[2])
        scores[:, future] = -np.inf
        weights = np.exp(scores - scores.max(axis=2, keepdims=True))
        weights /= weights.sum(axis=2, keepdims=True)
        attended = weights @ values
        y += attended @ out[head]
        kept.append((queries, keys, values, weights, attended))

    slopes = {name: np.zeros(each.shape) for name, each in params.items()}
    of_x = np.zeros_like(x)
    for head, (queries, keys, values, weights, attended) in enumerate(kept):
        own = head // group
        slopes["out"][head] = np.einsum("blk,bld->kd", attended, y)
        of_attended = y @ out[head].T
        of_weights = of_attended @ values.swapaxes(1, 2)
        mean = (of_weights * weights).sum(axis=2, keepdims=True)
        of_scores = weights * (of_weights - mean) / np.sqrt(q.shape[2])
        of_each = {
            "q": (q[:, head], of_scores @ keys),
            "k": (k[:, own], of_scores.swapaxes(1, 2) @ queries),
            "v": (v[:, own], weights.swapaxes(1, 2) @ of_attended),
        }
        for name, (kernel, slope) in of_each.items():
            number = head if name == "q" else own
            slopes[name][:, number] += np.einsum("bld,blk->dk", x, slope)
            of_x += slope @ kernel.T
    return y, (slopes, of_x)


def numbers_of_heads(mesh: Mesh) -> list[int]:
    """Give the numbers of key-value heads that a mesh allows."""
    model = mesh.shape["model"]
    return [n for n in (1, 2, 8) if n % model == 0 or model % n == 0]


def test_values_and_shardings(mesh: Mesh) -> None:
    """Output and gradients are NumPy's, sharded like the arguments."""
    for kv_heads in numbers_of_heads(mesh):
        params, x = arguments(mesh, kv_heads)
        expected, slopes = numpy_attention(params, x)

        y = jax.jit(attention_by_heads, static_argnums=2)(params, x, mesh)
        found = gradient_on(mesh)(params, x)

        assert y.dtype == np.float32
        rows = NamedSharding(mesh, P("data"))
        assert y.sharding.is_equivalent_to(rows, 3)
        np.testing.assert_allclose(y, expected, atol=1e-5)
        for got, want, like in zip(
            jax.tree.leaves(found),
            jax.tree.leaves(slopes),
            jax.tree.leaves((params, x)),
            strict=True,
        ):
            limit = 1e-5 * np.abs(want).max()
            np.testing.assert_allclose(got, want, atol=limit)
            assert got.sharding.is_equivalent_to(like.sharding, like.ndim)


def test_a_token_sees_none_that_follow(mesh: Mesh) -> None:
    """A change of the last token changes the last row of outputs alone."""
    params, x = arguments(mesh, HEADS)
    attend = jax.jit(attention_by_heads, static_argnums=2)
    other = np.array(x)
    other[:, -1] += 1
    other = inputs.laid_out(other, P("data"), mesh)

    before, after = attend(params, x, mesh), attend(params, other, mesh)

    np.testing.assert_allclose(before[:, :-1], after[:, :-1], atol=1e-6)
    assert (np.abs(before - after)[:, -1] > 1e-3).any()


def test_bfloat16(mesh: Mesh) -> None:
    """bfloat16 arrays give outputs and gradients in bfloat16."""
    given = arguments(mesh, HEADS)
    narrow = jax.tree.map(lambda each: each.astype(jnp.bfloat16), given)
    expected, _ = numpy_attention(*given)

    y = jax.jit(attention_by_heads, static_argnums=2)(*narrow, mesh)
    slopes = gradient_on(mesh)(*narrow)

    assert y.dtype == jnp.bfloat16
    assert all(x.dtype == jnp.bfloat16 for x in jax.tree.leaves(slopes))
    limit = 0.02 * np.abs(expected).max()
    np.testing.assert_allclose(np.float32(y), expected, atol=limit)


def test_what_the_devices_send_and_compute(mesh: Mesh) -> None:
    """Bytes and FLOPs are those of the formulas."""
    data, model = mesh.shape["data"], mesh.shape["model"]
    # A ring sends so many times the bytes of what it adds up.
    times = {n: 2 * (n - 1) / n for n in (data, model)}
    for kv_heads in numbers_of_heads(mesh):
        params, x = arguments(mesh, kv_heads)
        forward = program(attention_by_heads, params, x, mesh)
        both = program(gradient_on(mesh), params, x)
        own = max(1, kv_heads // model)
        tokens, heads = BATCH // data * LENGTH, HEADS // model
        one_sum = times[model] * tokens * DIM * 4
        shared = kv_heads % model != 0
        whole = 2 * DIM * kv_heads * HEAD_DIM * 4 * shared
        # Of shared key-value heads, the gradient of one is added up.
        kernels = 2 * (heads + own) * DIM * HEAD_DIM * 4
        per_token = DIM * (heads + own) + LENGTH * heads

        assert forward.sent("model") == forward.sent() == int(one_sum)
        assert both.sent("model") == int(2 * one_sum + times[model] * whole)
        assert both.sent("data") == int(times[data] * kernels)
        assert both.sent() == both.sent("model") + both.sent("data")
        assert set(both.collectives) <= {"all-reduce"}
        assert forward.flops.total == 4 * tokens * HEAD_DIM * per_token


def test_head_counts_that_do_not_fit() -> None:
    """An error names key-value heads that devices can't share."""
    count = jax.device_count()
    if count == 1:
        pytest.skip("one device has all heads")
    mesh = inputs.mesh_of(1, count)
    params = inputs.attention_params(16, 3 * count, 3, 8, mesh)
    x = inputs.laid_out(inputs.normal(2, 4, 16), P("data"), mesh)

    with pytest.raises(ValueError, match=rf"3 .* {count} .*'model'"):
        attention_by_heads(params, x, mesh)


def test_sizes_that_do_not_divide() -> None:
    """Query heads or sequences that leave a remainder are refused."""
    count = jax.device_count()
    if count == 1:
        pytest.skip("one device divides every size")
    one = inputs.mesh_of(1, 1)
    params = inputs.attention_params(16, count + 1, 1, 8, one)
    wide = inputs.attention_params(16, count, 1, 8, one)
    on_host = jax.device_get((params, wide))
    x = np.zeros((count + 1, 4, 16), np.float32)

    with pytest.raises(ValueError, match="evenly divi"):
        attention_by_heads(on_host[0], x, inputs.mesh_of(1, count))
    with pytest.raises(ValueError, match="evenly divi"):
        attention_by_heads(on_host[1], x, inputs.mesh_of(count, 1))
