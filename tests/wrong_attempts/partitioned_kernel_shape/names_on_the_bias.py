# wrong: structure
"""The bias is boxed, the kernel is not."""

import jax
import jax.numpy as jnp
from flax import linen as nn


def partitioned_kernel_shape(seed, x, features):
    bias_init = nn.with_partitioning(
        nn.initializers.zeros_init(), ("model",)
    )
    layer = nn.Dense(int(features), bias_init=bias_init)
    variables = layer.init(jax.random.key(int(seed)), x)
    kernel = variables["params"]["kernel"]
    return jnp.array(kernel.shape, jnp.float32)
