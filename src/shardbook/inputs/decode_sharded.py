"""Inputs of calls of ``decode_sharded``."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec as P

from shardbook.inputs.shared import laid_out, normal


def kv_cache(
    batch: int,
    length: int,
    kv_heads: int,
    head_dim: int,
    mesh: Mesh,
    written: int | None = None,
) -> dict[str, jax.Array]:
    """Return a cache of keys and values, placed on a mesh.

    Args:
        batch: Sequences, which the size of ``"data"`` must divide.
        length: Positions of a sequence.
        kv_heads: Key-value heads, which the size of ``"model"`` must
            divide.
        head_dim: Features of a head.
        mesh: Mesh with axes ``"data"`` and ``"model"``.
        written: How many positions have random numbers, where all later
            ones have 1e30; all of them if None.

    Returns:
        Float32 ``"k"`` and ``"v"``, ``(batch, length, kv_heads,
        head_dim)``, sharded as ``P("data", None, "model")``, as if
        another sequence had been in the cache before.
    """
    shape = batch, length, kv_heads, head_dim
    cache = {"k": normal(*shape, seed=5), "v": normal(*shape, seed=6)}
    if written is not None:
        # In NumPy: jax would compile it for each shape.
        seen = np.arange(length)[:, None, None] < written
        for name, array in cache.items():
            later = np.where(seen, array, 1e30)
            cache[name] = jnp.array(later, jnp.float32)
    spec = P("data", None, "model")
    placed: dict[str, jax.Array] = laid_out(cache, spec, mesh)
    return placed


def int32(value: int) -> jax.Array:
    """Return an int32 scalar, on the first device, uncommitted."""
    return jnp.int32(value)
