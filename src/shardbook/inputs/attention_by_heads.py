"""Inputs of calls of ``attention_by_heads``."""

import jax
from jax.sharding import Mesh, PartitionSpec as P

from shardbook.inputs.shared import laid_out, numpy_normal


def attention_params(
    dim: int,
    heads: int,
    kv_heads: int,
    head_dim: int,
    mesh: Mesh,
    seed: int = 1,
) -> dict[str, jax.Array]:
    """Return the kernels of grouped-query attention, placed on a mesh.

    Args:
        dim: Features of a token.
        heads: Query heads, which the size of ``"model"`` must divide.
        kv_heads: Key-value heads.
        head_dim: Features of a head.
        mesh: Mesh with an axis ``"model"``.
        seed: The seed of the first kernel; the next have the next ones.

    Returns:
        Float32 ``"q"``, ``(dim, heads, head_dim)``, ``"k"`` and ``"v"``,
        ``(dim, kv_heads, head_dim)``, and ``"out"``,
        ``(heads, head_dim, dim)``. Heads are sharded over ``"model"``, but
        for key-value heads that its size does not divide: these are
        replicated.
    """
    split = kv_heads % mesh.shape["model"] == 0
    kv = P(None, "model") if split else P()
    specs = {"q": P(None, "model"), "k": kv, "v": kv, "out": P("model")}
    params = {
        "q": numpy_normal(dim, heads, head_dim, seed=seed),
        "k": numpy_normal(dim, kv_heads, head_dim, seed=seed + 1),
        "v": numpy_normal(dim, kv_heads, head_dim, seed=seed + 2),
        "out": numpy_normal(heads, head_dim, dim, seed=seed + 3),
    }
    # In NumPy: jax would compile it for each shape.
    scaled = {name: each / dim**0.5 for name, each in params.items()}
    placed: dict[str, jax.Array] = laid_out(scaled, specs, mesh)
    return placed
