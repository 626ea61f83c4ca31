"""Initialised by apply, with params to be filled."""

import jax
import jax.numpy as jnp
from flax import linen as nn


def partitioned_kernel_shape(seed, x, features):
    kernel_init = nn.with_partitioning(
        nn.initializers.lecun_normal(), (None, "model")
    )
    layer = nn.Dense(int(features), kernel_init=kernel_init)
    rngs = {"params": jax.random.key(int(seed))}
    _, variables = layer.apply({}, x, rngs=rngs, mutable=["params"])
    layer.apply(variables, x)
    kernel = variables["params"]["kernel"].value
    return jnp.array(kernel.shape, jnp.float32)
