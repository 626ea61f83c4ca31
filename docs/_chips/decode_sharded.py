"""A token of a layer with a sharded KV cache, for any eight devices."""

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P

from shardbook.problems.decode_sharded import decode_sharded

MESH = {"data": 1, "model": 8}
BATCH, LENGTH, DIM, HEADS, KV_HEADS, HEAD_DIM = 8, 4096, 1024, 16, 8, 64


def step_on(mesh):
    """Return a step for the devices of a mesh, and abstract arguments."""

    def abstract(spec, *shape, dtype=jnp.float32):
        sharding = NamedSharding(mesh, spec)
        return jax.ShapeDtypeStruct(shape, dtype, sharding=sharding)

    columns = P(None, "model")
    params = {
        "q": abstract(columns, DIM, HEADS, HEAD_DIM),
        "k": abstract(columns, DIM, KV_HEADS, HEAD_DIM),
        "v": abstract(columns, DIM, KV_HEADS, HEAD_DIM),
        "out": abstract(P("model"), HEADS, HEAD_DIM, DIM),
    }
    spec = P("data", None, "model")
    cache = {
        name: abstract(spec, BATCH, LENGTH, KV_HEADS, HEAD_DIM)
        for name in "kv"
    }
    x = abstract(P("data"), BATCH, DIM)
    position = abstract(P(), dtype=jnp.int32)
    return decode_sharded(mesh), (params, cache, x, position)


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
