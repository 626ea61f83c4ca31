"""Inputs of calls of ``decode_sharded``."""

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, PartitionSpec as P

from shardbook.inputs.shared import laid_out, normal


def kv_cache(
    batch: int, length: int, kv_heads: int, head_dim: int, mesh: Mesh
) -> dict[str, jax.Array]:
    """Return a cache of keys and values, placed on a mesh.

    Args:
        batch: Sequences, which the size of ``"data"`` must divide.
        length: Positions of a sequence.
        kv_heads: Key-value heads, which the size of ``"model"`` must
            divide.
        head_dim: Features of a head.
        mesh: Mesh with axes ``"data"`` and ``"model"``.

    Returns:
        Float32 ``"k"`` and ``"v"``, ``(batch, length, kv_heads,
        head_dim)``, sharded as ``P("data", None, "model")``. They hold
        random numbers, at positions that were not written yet as well.
    """
    shape = batch, length, kv_heads, head_dim
    cache = {"k": normal(*shape, seed=5), "v": normal(*shape, seed=6)}
    spec = P("data", None, "model")
    placed: dict[str, jax.Array] = laid_out(cache, spec, mesh)
    return placed


def int32(value: int) -> jax.Array:
    """Return an int32 scalar, on the first device, uncommitted."""
    return jnp.int32(value)
