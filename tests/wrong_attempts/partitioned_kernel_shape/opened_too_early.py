# wrong: structure
"""Out of its box before the layer ever sees it."""

import jax
import jax.numpy as jnp
from flax import linen as nn


def partitioned_kernel_shape(seed, x, features):
    boxed = nn.with_partitioning(
        nn.initializers.lecun_normal(), (None, "model")
    )
    layer = nn.Dense(
        int(features), kernel_init=lambda *args: boxed(*args).value
    )
    variables = layer.init(jax.random.key(int(seed)), x)
    kernel = variables["params"]["kernel"]
    return jnp.array(kernel.shape, jnp.float32)
