"""The whole function is compiled, and its layers are kept."""

import functools

import jax
import jax.numpy as jnp
from flax import linen as nn


@functools.cache
def layer_of(features):
    kernel_init = nn.with_partitioning(
        nn.initializers.lecun_normal(), (None, "model")
    )
    return nn.Dense(features, kernel_init=kernel_init)


@functools.partial(jax.jit, static_argnums=(0, 2))
def partitioned_kernel_shape(seed, x, features):
    layer = layer_of(int(features))
    variables = layer.init(jax.random.key(int(seed)), x)
    kernel = variables["params"]["kernel"].value
    return jnp.array(kernel.shape, jnp.float32)
