# wrong: values
"""A layer written by hand, where a Dense was asked for."""

import jax
import jax.numpy as jnp
from flax import linen as nn


class Columns(nn.Module):
    features: int

    @nn.compact
    def __call__(self, x):
        kernel_init = nn.with_partitioning(
            nn.initializers.lecun_normal(), (None, "model")
        )
        shape = (x.shape[-1], self.features)
        return x @ self.param("kernel", kernel_init, shape)


def partitioned_kernel_shape(seed, x, features):
    layer = Columns(int(features))
    variables = layer.init(jax.random.key(int(seed)), x)
    kernel = variables["params"]["kernel"].value
    return jnp.array(kernel.shape, jnp.float32)
