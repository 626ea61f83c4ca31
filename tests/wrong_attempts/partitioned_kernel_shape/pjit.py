# wrong: deprecated
"""By pjit, which reads the names, as the old page says."""

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax.experimental.pjit import pjit


def partitioned_kernel_shape(seed, x, features):
    kernel_init = nn.with_partitioning(
        nn.initializers.lecun_normal(), (None, "model")
    )
    layer = nn.Dense(int(features), kernel_init=kernel_init)
    variables = pjit(layer.init)(jax.random.key(int(seed)), x)
    kernel = variables["params"]["kernel"].value
    return jnp.array(kernel.shape, jnp.float32)
