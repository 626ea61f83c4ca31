# wrong: values
"""From the input and the output, with no look into the box."""

import jax
import jax.numpy as jnp
from flax import linen as nn


def partitioned_kernel_shape(seed, x, features):
    kernel_init = nn.with_partitioning(
        nn.initializers.lecun_normal(), (None, "model")
    )
    layer = nn.Dense(int(features), kernel_init=kernel_init)
    y, _ = layer.init_with_output(jax.random.key(int(seed)), x)
    return jnp.array([x.shape[-1], y.shape[-1]], jnp.float32)
