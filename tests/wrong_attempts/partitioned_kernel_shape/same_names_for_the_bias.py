# wrong: structure
"""The names of the kernel, on a bias that has one axis."""

import jax
import jax.numpy as jnp
from flax import linen as nn


def partitioned_kernel_shape(seed, x, features):
    kernel_init = nn.with_partitioning(
        nn.initializers.lecun_normal(), (None, "model")
    )
    bias_init = nn.with_partitioning(
        nn.initializers.zeros_init(), (None, "model")
    )
    layer = nn.Dense(
        int(features), kernel_init=kernel_init, bias_init=bias_init
    )
    variables = layer.init(jax.random.key(int(seed)), x)
    kernel = variables["params"]["kernel"].value
    return jnp.array(kernel.shape, jnp.float32)
