"""Clip gradients by their global norm, inside ``jax.shard_map``."""

from collections import defaultdict
from typing import Any

import jax
import jax.numpy as jnp


def clip_local(
    shards: Any, specs: Any, limit: float, axes: tuple[str, ...]
) -> Any:
    """Return a device's shards of gradients, clipped by the norm of all.

    Call it inside ``jax.shard_map``. The norm is that of the whole tree:
    shards are added up over the devices that hold different ones, and a
    replicated array counts once. A device sends less than 8 bytes for
    each set of mesh axes that a spec names.

    Args:
        shards: A tree of this device's shards, float32 or bfloat16.
        specs: A spec for each array, of the same tree: the names of mesh
            axes, tuples of names, and ``None``.
        limit: The largest norm, above 0.
        axes: The names of all axes of the mesh.

    Returns:
        The shards as they are if the norm is below ``limit``, else times
        ``limit / norm``; each with the dtype and the spec that it had. If
        any gradient on any device is NaN, all are.

    Example:
        ``jax.shard_map(lambda g: clip_local(g, specs, 1.0, ("data",)),
        mesh=mesh, in_specs=(specs,), out_specs=specs)(gradients)``

    References:
        Pascanu et al., *On the difficulty of training Recurrent Neural
        Networks*, 2012, section 3.2, https://arxiv.org/abs/1211.5063
    """
    # --- solution ---
    terms: dict[tuple[str, ...], list[jax.Array]] = defaultdict(list)

    def add(shard: jax.Array, spec: Any) -> None:
        named = jax.tree.leaves(tuple(spec))
        over = tuple(axis for axis in axes if axis in named)
        square = jnp.square(shard.astype(jnp.float32))
        terms[over].append(jnp.sum(square))  # float32[]

    jax.tree.map(add, shards, specs)
    # One all-reduce for each set of axes, over no other axis.
    sums = [jax.lax.psum(sum(each), over) for over, each in terms.items()]
    norm = jnp.sqrt(sum(sums))
    factor = jnp.where(norm < limit, 1, limit / norm)  # NaN if norm is
    return jax.tree.map(lambda g: (g * factor).astype(g.dtype), shards)
