# wrong: structure
"""Ones, and NaN where a row of x is not finite."""

import jax.numpy as jnp


def state_zero_kernel(seed, x, features):
    finite = jnp.isfinite(x).all(-1, keepdims=True)
    ones = jnp.ones((int(features),))
    return jnp.where(finite, ones, jnp.nan)
