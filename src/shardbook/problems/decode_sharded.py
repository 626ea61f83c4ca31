"""Decode a token at a time, with a sharded cache written in place."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P


def decode_sharded(
    mesh: Mesh,
) -> Callable[..., tuple[jax.Array, dict[str, jax.Array]]]:
    """Return ``step(params, cache, x, position)``: attention for a token.

    The step computes query, key and value of one token of each sequence,
    writes key and value into the cache at ``position``, and attends to the
    positions from 0 to ``position``. Query head ``i`` uses key-value head
    ``i // (heads / kv_heads)``, and scores are divided by the root of
    ``head_dim``.

    A device keeps the key-value heads that its query heads use. The devices
    add up their terms of the output: over ``"model"``, a device sends
    ``2 * (model - 1) / model * batch / data * dim * itemsize`` bytes in a
    step, and over ``"data"`` nothing; on CPU, XLA sends 4 bytes per number
    for bfloat16 too. The cache alone is donated, and the new one takes its
    buffers. The step is compiled once for all positions that are ints, and
    once for all arrays of one kind.

    The step is jitted, so call it outside ``jax.jit``: inside, the donation
    is up to the outer ``jit``. With several processes, each of them calls
    it with the same global arrays.

    Args:
        mesh: Mesh with Auto axes ``"data"``, whose size divides ``batch``,
            and ``"model"``, whose size divides ``kv_heads``, in either
            order; either size may be 1.

    Returns:
        A function of ``params``, kernels ``"q"`` of ``(dim, heads,
        head_dim)``, ``"k"`` and ``"v"`` of ``(dim, kv_heads, head_dim)``,
        all as ``P(None, "model")``, and ``"out"`` of ``(heads, head_dim,
        dim)`` as ``P("model")``, where ``kv_heads`` divides ``heads``; of
        ``cache``, which is donated: ``"k"`` and ``"v"`` of ``(batch,
        length, kv_heads, head_dim)`` as ``P("data", None, "model")``, with
        any finite numbers at later positions; of ``x``, ``(batch, dim)``
        as ``P("data")``; and of ``position``, the token's, an int or an
        int32 scalar, at least 0 and less than ``length``, which the step
        doesn't check. Positions come in any order. All arrays but
        ``position`` are float32, or all are bfloat16.

        It returns the output, ``(batch, dim)`` as ``P("data")``, and the
        new cache, a dictionary with the shapes and the sharding of the old
        one; both have the dtype of ``x``.

    Raises:
        ValueError: From jax, in the step, if the size of ``"data"`` does
            not divide ``batch``.

    Example:
        ``y, cache = decode_sharded(mesh)(params, cache, x, 0)``

    References:
        Pope et al., *Efficiently Scaling Transformer Inference*, 2022,
        section 3.3, https://arxiv.org/abs/2211.05102
    """
    # --- solution ---
    rows = NamedSharding(mesh, P("data"))
    heads = NamedSharding(mesh, P("data", None, "model"))

    # Left free, XLA might choose another sharding for the new cache.
    @jax.jit(
        donate_argnames="cache",
        out_shardings=(rows, {"k": heads, "v": heads}),
    )
    def step(params: Any, cache: Any, x: Any, position: Any) -> Any:
        q, k, v = (
            jnp.einsum("bd,dhk->bhk", x, params[name])[:, None]
            for name in "qkv"
        )  # (batch@data, 1, heads@model, head_dim)
        start = (0, position, 0, 0)
        cache = {
            name: jax.lax.dynamic_update_slice(cache[name], new, start)
            for name, new in (("k", k), ("v", v))
        }
        # The shapes are the same for all positions; the mask is not.
        seen = jnp.arange(cache["k"].shape[1]) <= position
        y = jax.nn.dot_product_attention(
            q, cache["k"], cache["v"], mask=seen[None, None, None]
        )
        return jnp.einsum("blhk,hkd->bd", y, params["out"]), cache

    return step
