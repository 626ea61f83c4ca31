# wrong: values
"""The columns from the kernel, the rows from x."""

import jax
import jax.numpy as jnp
from flax import linen as nn


def partitioned_kernel_shape(seed, x, features):
    kernel_init = nn.with_partitioning(
        nn.initializers.lecun_normal(), (None, "model")
    )
    layer = nn.Dense(int(features), kernel_init=kernel_init)
    variables = layer.init(jax.random.key(int(seed)), x)
    kernel = variables["params"]["kernel"].value
    return jnp.array([x.shape[-1], kernel.shape[-1]], jnp.float32)
