# wrong: values
"""Three zeros, to be filled in later."""

import jax.numpy as jnp


def split_merge_round_trip(seed, x, features):
    return jnp.zeros(3)
