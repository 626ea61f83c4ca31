"""A subclass of Dense that brings its own initializer."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from flax import linen as nn


class ColumnDense(nn.Dense):
    kernel_init: Callable = nn.with_partitioning(
        nn.initializers.lecun_normal(), (None, "model")
    )

    @nn.compact
    def __call__(self, x):
        return super().__call__(x)


def partitioned_kernel_shape(seed, x, features):
    layer = ColumnDense(int(features))
    variables = layer.init(jax.random.key(int(seed)), x)
    kernel = variables["params"]["kernel"].value
    return jnp.array(kernel.shape, jnp.float32)
