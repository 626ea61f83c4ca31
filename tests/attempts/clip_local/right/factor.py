"""Each square is divided by the number of its copies, then one psum."""

import math

import jax
import jax.numpy as jnp
import optax


def clip_local(shards, specs, limit, axes):
    def part(shard, spec):
        named = jax.tree.leaves(tuple(spec))
        copies = math.prod(
            jax.lax.axis_size(axis) for axis in axes if axis not in named
        )
        return jnp.sum(jnp.square(shard), dtype=jnp.float32) / copies

    def wide(shard):
        return shard.astype(jnp.float32)

    parts = jax.tree.map(part, jax.tree.map(wide, shards), specs)
    norm = jax.lax.psum(optax.tree.sum(parts), axes) ** 0.5
    return jax.tree.map(
        lambda g: jnp.where(norm < limit, g, g * limit / norm).astype(
            g.dtype
        ),
        shards,
    )
