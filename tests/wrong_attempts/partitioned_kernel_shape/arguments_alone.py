# wrong: values
"""The shape is known without any model."""

import jax.numpy as jnp


def partitioned_kernel_shape(seed, x, features):
    return jnp.array([x.shape[-1], features], jnp.float32)
