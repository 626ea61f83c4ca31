"""Everything imported by name, under other names."""

from flax.core.meta import unbox
from flax.linen import Dense as Layer, with_partitioning as named
from flax.linen.initializers import lecun_normal
from jax import numpy as jnp
from jax.random import key


def partitioned_kernel_shape(seed, x, features):
    layer = Layer(
        int(features), kernel_init=named(lecun_normal(), (None, "model"))
    )
    kernel = layer.init(key(int(seed)), x)["params"]["kernel"]
    return jnp.asarray(unbox(kernel).shape, dtype="float32")
