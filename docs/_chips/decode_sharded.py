"""A token of a layer with a sharded KV cache, for any eight devices."""

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P

from shardbook.problems.decode_sharded import decode_sharded
from shardbook_site.note_chips import mesh_on
from shardscope import devices_of, program

MESH = {"data": 1, "model": 8}
BATCH, LENGTH, DIM, HEADS, KV_HEADS, HEAD_DIM = 8, 4096, 1024, 16, 8, 64


BY_HEADS, BY_LENGTH = P("data", None, "model"), P("data", "model")
BY_SEQUENCES = P(("data", "model"))


def arrays_on(mesh, spec=BY_HEADS, kv_heads=KV_HEADS):
    """Return abstract arguments of a step."""

    def abstract(spec, *shape, dtype=jnp.float32):
        sharding = NamedSharding(mesh, spec)
        return jax.ShapeDtypeStruct(shape, dtype, sharding=sharding)

    columns = P(None, "model")
    of_kv = columns if spec == BY_HEADS else P()
    params = {
        "q": abstract(columns, DIM, HEADS, HEAD_DIM),
        "k": abstract(of_kv, DIM, kv_heads, HEAD_DIM),
        "v": abstract(of_kv, DIM, kv_heads, HEAD_DIM),
        "out": abstract(P("model"), HEADS, HEAD_DIM, DIM),
    }
    cache = {
        name: abstract(spec, BATCH, LENGTH, kv_heads, HEAD_DIM)
        for name in "kv"
    }
    x = abstract(P("data"), BATCH, DIM)
    position = abstract(P(), dtype=jnp.int32)
    return params, cache, x, position


def step_on(mesh):
    """Return a step for the devices of a mesh, and abstract arguments."""
    return decode_sharded(mesh), arrays_on(mesh)


def few_heads_on(mesh, spec):
    """Compile a step with half as many key-value heads as devices."""

    def constrain(x, *specs):
        for each in specs if spec == BY_SEQUENCES else ():
            sharding = NamedSharding(mesh, each)
            x = jax.lax.with_sharding_constraint(x, sharding)
        return x

    def step(params, cache, x, position):
        q, k, v = (
            jnp.einsum("bd,dhk->bhk", x, params[name])[:, None]
            for name in "qkv"
        )
        start = (0, position, 0, 0)
        cache = {
            name: jax.lax.dynamic_update_slice(cache[name], new, start)
            for name, new in (("k", k), ("v", v))
        }
        seen = jnp.arange(LENGTH) <= position
        y = jax.nn.dot_product_attention(
            constrain(q, BY_HEADS, BY_SEQUENCES),
            cache["k"],
            cache["v"],
            mask=seen[None, None, None],
        )
        y = constrain(y, BY_SEQUENCES, BY_HEADS)
        return jnp.einsum("blhk,hkd->bd", y, params["out"]), cache

    rows, of_cache = (NamedSharding(mesh, s) for s in (P("data"), spec))
    shardings = rows, {"k": of_cache, "v": of_cache}
    jitted = jax.jit(step, donate_argnums=1, out_shardings=shardings)
    return program(jitted, *arrays_on(mesh, spec, mesh.size // 2))


def write_on(mesh, write):
    """Compile a write at a position for each sequence."""
    _, cache, _, _ = arrays_on(mesh)
    old = cache["k"]
    new = jax.ShapeDtypeStruct(
        (BATCH, KV_HEADS, HEAD_DIM),
        old.dtype,
        sharding=NamedSharding(mesh, P("data", "model")),
    )
    rows = NamedSharding(mesh, P("data"))
    positions = jax.ShapeDtypeStruct((BATCH,), jnp.int32, sharding=rows)
    jitted = jax.jit(write, donate_argnums=0, out_shardings=old.sharding)
    return program(jitted, old, new, positions)


def by_row(cache, new, position):
    """Write the key or value of a sequence."""
    start = position, 0, 0
    return jax.lax.dynamic_update_slice(cache, new[None], start)


def by_scatter(cache, new, positions):
    """Write the key or value of every sequence."""
    return cache.at[jnp.arange(BATCH), positions].set(new)


def check(cpu, v5e, h100):
    """Assert what the page says."""
    one_sum = 2 * 7 * BATCH * DIM * 4 // 8
    cache = 2 * BATCH * LENGTH * KV_HEADS * HEAD_DIM * 4 // 8
    for report in (cpu, v5e, h100):
        assert report.sent("model") == one_sum
        assert report.memory.donated == cache
    for report in (cpu, h100):
        assert cache < report.memory.temporaries < 1.1 * cache
    assert v5e.memory.temporaries < 0.01 * cache
    for name in ("v5e:2x4", "h100:1x8"):
        mesh = mesh_on(MESH, devices_of(name))
        length, sequences = (
            few_heads_on(mesh, spec) for spec in (BY_LENGTH, BY_SEQUENCES)
        )
        assert sequences.collectives == {"all-to-all": 2, "all-reduce": 1}
        assert length.sent() > 2 * sequences.sent()
        mesh = mesh_on({"data": 2, "model": 4}, devices_of(name))
        for write in (jax.vmap(by_row), by_scatter):
            report = write_on(mesh, write)
            assert report.sent() == 0
            # Neither copies the cache.
            assert report.memory.temporaries < report.memory.donated / 50
