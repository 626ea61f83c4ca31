# wrong: programs
"""A computation marks the element, and the marked shards are found."""

import jax.numpy as jnp


def who_holds(array, index):
    marked = jnp.zeros_like(array).at[index].set(1)
    shards = marked.addressable_shards
    return sorted(s.device.id for s in shards if s.data.any())
