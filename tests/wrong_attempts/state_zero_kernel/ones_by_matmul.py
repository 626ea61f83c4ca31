# wrong: structure
"""A matmul with zeros and a plus one, which is what a Linear does."""

import jax.numpy as jnp


def state_zero_kernel(seed, x, features):
    return x @ jnp.zeros((x.shape[-1], int(features))) + 1.0
