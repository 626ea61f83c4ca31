# wrong: values
"""The bias is no box, so its shape is easier to get."""

import jax
import jax.numpy as jnp
from flax import linen as nn


def partitioned_kernel_shape(seed, x, features):
    kernel_init = nn.with_partitioning(
        nn.initializers.lecun_normal(), (None, "model")
    )
    layer = nn.Dense(int(features), kernel_init=kernel_init)
    variables = layer.init(jax.random.key(int(seed)), x)
    bias = variables["params"]["bias"]
    return jnp.array([x.shape[-1], *bias.shape], jnp.float32)
