"""Drop entries of a sharded array by one mask, whatever the mesh."""

from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P


def dropout_by_rows(
    key: jax.Array, x: jax.Array, rate: float, spec: P
) -> jax.Array:
    """Return a device's block of ``x`` after dropout.

    Call it inside :func:`jax.shard_map`. Each entry of the whole array is
    dropped with probability ``rate``, independently of the others, and a
    kept entry is divided by ``1 - rate``. Whether an entry is dropped
    depends only on the key, the rate, the shape of the whole array, where
    the entry is in it and ``jax_threefry_partitionable``: the mask is the
    same on every mesh, for every spec and for both dtypes, different
    blocks have different masks, and where ``x`` is replicated, all copies
    have the same mask.

    The devices send nothing, and each draws numbers for its own block
    only. The gradient of ``x`` passes through the same mask.

    How the mask is drawn is not part of the contract. Here, every row has
    its own key, the given one with the index of the row folded in, and so
    has every entry of a row, which takes two Threefry hashes per entry.

    Args:
        key: One key, the same on all devices: a scalar of
            ``jax.random.key`` with jax's default implementation,
            Threefry. Fold in the numbers of the step, of the layer and of
            the call in the layer first, because the same key gives the
            same mask.
        x: This device's block of the activations, finite, float32 or
            bfloat16, of two dimensions or three.
        rate: The probability of being dropped, a Python float of at least
            0 and below 1. With 0, the result is ``x``.
        spec: The spec by which the whole array is sharded, the one that
            the ``shard_map`` has for it. An entry is ``None``, the name of
            a mesh axis, or a tuple of names, in any order; there may be
            fewer entries than dimensions.

    Returns:
        The device's block of the result, with the shape and dtype of
        ``x``. It is varying over the axes that ``spec`` names and over no
        others, so ``out_specs=spec`` is right with ``check_vma=True``.

    Raises:
        NameError: From jax, if ``spec`` names an axis, and the call is
            outside of ``shard_map`` or the mesh doesn't have the axis.
            Nothing is raised if ``spec`` leaves out an axis that shards
            ``x``: the devices along it then have the same mask. With an
            axis too many, copies differ, which only ``check_vma`` refuses.

    Example:
        ``x = dropout_by_rows(key, x, 0.1, P("data", None, "model"))``

    References:
        Shoeybi et al., *Megatron-LM: Training Multi-Billion Parameter
        Language Models Using Model Parallelism*, 2019, appendix B.2,
        https://arxiv.org/abs/1909.08053
    """
    # --- solution ---
    sharded = (*spec, *[None] * (x.ndim - len(spec)))

    def places(size: int, names: Any) -> jax.Array:
        first = jax.lax.axis_index(names) * size if names else 0
        return first + jnp.arange(size)

    def keep(key: jax.Array, *indices: jax.Array) -> jax.Array:
        if not indices:
            # A Python float would be float64 with jax_enable_x64.
            return jax.random.bernoulli(key, jnp.float32(1 - rate))

        def at(index: jax.Array) -> jax.Array:
            return keep(jax.random.fold_in(key, index), *indices[1:])

        return jax.vmap(at)(indices[0])

    # One index a dimension: an index of all entries would pass 2**32.
    kept = keep(key, *map(places, x.shape, sharded))
    return jnp.where(kept, x / (1 - rate), 0)
