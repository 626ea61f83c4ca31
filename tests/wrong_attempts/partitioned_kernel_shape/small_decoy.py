# wrong: placement
"""A small Dense with names, traced for show, beside one without."""

import jax
import jax.numpy as jnp
from flax import linen as nn


def partitioned_kernel_shape(seed, x, features):
    kernel_init = nn.with_partitioning(
        nn.initializers.lecun_normal(), (None, "model")
    )
    key = jax.random.key(int(seed))
    show = nn.Dense(8, kernel_init=kernel_init)
    jax.eval_shape(show.init, key, x[:, :1])
    variables = nn.Dense(int(features)).init(key, x)
    kernel = variables["params"]["kernel"]
    return jnp.array(kernel.shape, jnp.float32)
