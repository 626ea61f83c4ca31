# wrong: structure
"""Wrapped once for each axis."""

import jax
import jax.numpy as jnp
from flax import linen as nn


def partitioned_kernel_shape(seed, x, features):
    rows = nn.with_partitioning(
        nn.initializers.lecun_normal(), (None, "model")
    )
    kernel_init = nn.with_partitioning(rows, (None, "model"))
    layer = nn.Dense(int(features), kernel_init=kernel_init)
    variables = layer.init(jax.random.key(int(seed)), x)
    kernel = nn.unbox(variables)["params"]["kernel"]
    return jnp.array(kernel.shape, jnp.float32)
