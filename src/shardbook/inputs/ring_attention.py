"""Inputs of calls of ``ring_attention``."""

import jax
import jax.numpy as jnp

from shardbook.inputs.shared import normal


def hard_to_add(*shape: int, seed: int) -> jax.Array:
    """Return queries, keys or values whose scores and sums need float32.

    The scores of all heads but the last are large. In the last head, each
    of the last 32 tokens outweighs any token before it 518 times, so a sum
    in bfloat16 over the last tokens stays the same if the weights of
    another 64 tokens are added.

    Args:
        *shape: ``(batch, length, heads, head_dim)``; 16 for ``head_dim``.
        seed: 0 for queries, 1 for keys, 2 for values.

    Returns:
        A bfloat16 array.
    """
    before, last = ((1, 1), (-1.5625, 0), (0, 32))[seed]
    is_last = jnp.arange(shape[1])[:, None] >= shape[1] - 32
    x = 8 * normal(*shape, seed=seed)
    x = x.at[:, :, -1].set(jnp.where(is_last, last, before))
    return x.astype(jnp.bfloat16)
