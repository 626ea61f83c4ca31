# crashed: values
"""Placed on all devices, which need not divide the columns."""

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax.sharding import AxisType


def partitioned_kernel_shape(seed, x, features):
    mesh = jax.make_mesh(
        (jax.device_count(),), ("model",), (AxisType.Auto,)
    )
    kernel_init = nn.with_partitioning(
        nn.initializers.lecun_normal(), (None, "model")
    )
    layer = nn.Dense(int(features), kernel_init=kernel_init)
    variables = layer.init(jax.random.key(int(seed)), x)
    placed = jax.device_put(variables, nn.get_sharding(variables, mesh))
    kernel = placed["params"]["kernel"].value
    return jnp.array(kernel.shape, jnp.float32)
