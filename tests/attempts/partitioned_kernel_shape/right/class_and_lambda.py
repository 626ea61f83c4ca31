"""A class with a lambda for the initializer, and nn.init."""

import functools

import jax
import jax.numpy as jnp
from flax import linen as nn


class Shape:
    names = (None, "model")

    def __init__(self, features):
        boxed = nn.with_partitioning(
            nn.initializers.lecun_normal(), self.names
        )
        self.layer = nn.Dense(
            features, kernel_init=lambda *args: boxed(*args)
        )

    def __call__(self, seed, x):
        init = nn.init(lambda layer, x: layer(x), self.layer)
        params = init(jax.random.key(seed), x)["params"]
        return jnp.float32(params["kernel"].unbox().shape)


# Neither a def nor a lambda, but it can be called.
partitioned_kernel_shape = functools.partial(
    lambda seed, x, features: Shape(int(features))(int(seed), x)
)
