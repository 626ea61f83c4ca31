"""A token at a time, on meshes of all the devices there are."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from shardbook import inputs
from shardbook.problems.decode_sharded import decode_sharded
from shardgrade.grading.note_programs import note_compilations
from shardscope import program

BATCH, LENGTH, DIM, HEADS, KV_HEADS, HEAD_DIM = 8, 7, 24, 16, 8, 4
CACHE = P("data", None, "model")


def arguments(mesh: Mesh, kv_heads: int = KV_HEADS) -> tuple[Any, Any]:
    """Give placed params, and a cache in which random numbers are."""
    return (
        inputs.attention_params(DIM, HEADS, kv_heads, HEAD_DIM, mesh),
        inputs.kv_cache(BATCH, LENGTH, kv_heads, HEAD_DIM, mesh),
    )


def tokens(mesh: Mesh, count: int = LENGTH) -> list[jax.Array]:
    """Give a token for each sequence, so many times."""
    found = [inputs.normal(BATCH, DIM, seed=9 + i) for i in range(count)]
    placed: list[jax.Array] = inputs.laid_out(found, P("data"), mesh)
    return placed


def numpy_decode(params: Any, xs: list[Any]) -> tuple[Any, Any, Any]:
    """Compute all outputs, keys and values in NumPy, head by head."""
    q, k, v, out = (
        np.asarray(params[name], "d") for name in ("q", "k", "v", "out")
    )
    x = np.stack([np.asarray(each, "d") for each in xs], axis=1)
    keys = np.einsum("bld,dhk->blhk", x, k)
    values = np.einsum("bld,dhk->blhk", x, v)
    y = np.zeros_like(x)
    for head in range(q.shape[1]):
        own = head // (q.shape[1] // k.shape[1])
        queries = x @ q[:, head]
        for at in range(len(xs)):
            seen = keys[:, : at + 1, own]
            scores = np.einsum("bk,blk->bl", queries[:, at], seen)
            powers = np.exp(scores / np.sqrt(q.shape[2]))
            weights = powers / powers.sum(axis=1, keepdims=True)
            read = np.einsum(
                "bl,blk->bk", weights, values[:, : at + 1, own]
            )
            y[:, at] += read @ out[head]
    return y, keys, values


def test_tokens_one_by_one(mesh: Mesh) -> None:
    """Outputs and the cache are NumPy's for all tokens at once."""
    kv_heads = mesh.shape["model"]
    params, cache = arguments(mesh, kv_heads)
    xs, step = tokens(mesh), decode_sharded(mesh)
    expected, keys, values = numpy_decode(params, xs)

    for position, x in enumerate(xs):
        y, cache = step(params, cache, x, position)

        assert y.dtype == np.float32
        assert y.sharding.is_equivalent_to(
            NamedSharding(mesh, P("data")), 2
        )
        np.testing.assert_allclose(y, expected[:, position], atol=1e-5)
        for each in cache.values():
            heads = NamedSharding(mesh, CACHE)
            assert each.sharding.is_equivalent_to(heads, 4)
    np.testing.assert_allclose(cache["k"], keys, atol=1e-5)
    np.testing.assert_allclose(cache["v"], values, atol=1e-5)


def test_a_sequence_that_starts_again(mesh: Mesh) -> None:
    """At position 0, a token attends to itself alone."""
    params, cache = arguments(mesh)
    (x,) = tokens(mesh, 1)
    expected, keys, _ = numpy_decode(params, [x])
    later = np.array(cache["k"])[:, 1:]

    y, cache = decode_sharded(mesh)(params, cache, x, 0)

    np.testing.assert_allclose(y, expected[:, 0], atol=1e-5)
    np.testing.assert_allclose(cache["k"][:, :1], keys, atol=1e-5)
    np.testing.assert_array_equal(cache["k"][:, 1:], later)


def test_bfloat16(mesh: Mesh) -> None:
    """bfloat16 arrays give outputs and a cache in bfloat16."""
    params, cache = arguments(mesh)
    xs, step = tokens(mesh, 3), decode_sharded(mesh)
    expected, _, _ = numpy_decode(params, xs)
    params, cache, xs = jax.tree.map(
        lambda each: each.astype(jnp.bfloat16), (params, cache, xs)
    )

    for position, x in enumerate(xs):
        y, cache = step(params, cache, x, position)

        limit = 0.03 * np.abs(expected).max()
        wanted = expected[:, position]
        np.testing.assert_allclose(np.float32(y), wanted, atol=limit)
        assert {a.dtype for a in (y, *cache.values())} == {y.dtype}
        assert y.dtype == jnp.bfloat16


@pytest.mark.parametrize("kind", [int, jnp.int32])
def test_one_program_in_place(mesh: Mesh, kind: Any) -> None:
    """All positions share a program, and all caches their buffers."""
    params, cache = arguments(mesh)
    # What shares the memory of NumPy, as aligned slices may, is copied.
    cache = jax.tree.map(jnp.copy, cache)
    step = decode_sharded(mesh)

    def buffers(cache: Any) -> list[int]:
        return [
            shard.data.unsafe_buffer_pointer()
            for each in cache.values()
            for shard in each.addressable_shards
        ]

    first, pairs = buffers(cache), enumerate(tokens(mesh))
    steps = [(x, kind(position)) for position, x in pairs]
    with note_compilations() as programs:
        for x, position in steps:
            old = cache
            _, cache = step(params, cache, x, position)

            assert all(each.is_deleted() for each in old.values())
            assert buffers(cache) == first
    assert len(programs) == 1


def test_what_the_devices_send_and_keep(mesh: Mesh) -> None:
    """A sum of the output is all they send, and the cache is donated."""
    data, model = mesh.shape["data"], mesh.shape["model"]
    (x,) = tokens(mesh, 1)
    params, cache = arguments(mesh)
    report = program(decode_sharded(mesh), params, cache, x, 3)
    one_sum = 2 * (model - 1) * BATCH // data * DIM * 4 // model
    whole = sum(each.nbytes for each in cache.values())

    assert report.sent("model") == report.sent() == one_sum
    assert set(report.collectives) <= {"all-reduce"}
    assert report.memory.donated == whole // (data * model)


def test_a_batch_that_does_not_divide() -> None:
    """Sequences that leave a remainder are refused by jax."""
    count = jax.device_count()
    if count == 1:
        pytest.skip("one device divides every size")
    one, mesh = inputs.mesh_of(1, 1), inputs.mesh_of(count, 1)
    params = inputs.attention_params(DIM, 4, 2, HEAD_DIM, one)
    cache = inputs.kv_cache(count + 1, LENGTH, 2, HEAD_DIM, one)
    given = jax.device_get((params, cache))
    x = np.zeros((count + 1, DIM), np.float32)

    with pytest.raises(ValueError, match=r"evenly divi|divisible"):
        decode_sharded(mesh)(*given, x, 0)
