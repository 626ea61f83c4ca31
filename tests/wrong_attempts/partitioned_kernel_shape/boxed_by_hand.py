# wrong: structure
"""Boxed after init, when the kernel was long made."""

import jax
import jax.numpy as jnp
from flax import linen as nn


def partitioned_kernel_shape(seed, x, features):
    layer = nn.Dense(int(features))
    variables = layer.init(jax.random.key(int(seed)), x)
    box = nn.Partitioned(variables["params"]["kernel"], (None, "model"))
    return jnp.array(box.value.shape, jnp.float32)
