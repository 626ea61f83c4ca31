"""A mesh of one device is set for good, when the file is read."""

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax.sharding import AxisType

ONE = jax.make_mesh(
    (1,), ("model",), (AxisType.Auto,), devices=jax.devices()[:1]
)
jax.set_mesh(ONE)


def partitioned_kernel_shape(seed, x, features):
    kernel_init = nn.with_partitioning(
        nn.initializers.lecun_normal(), (None, "model")
    )
    layer = nn.Dense(int(features), kernel_init=kernel_init)
    variables = layer.init(jax.random.key(int(seed)), x)
    kernel = variables["params"]["kernel"].value
    return jnp.array(kernel.shape, jnp.float32)
