# wrong: values
"""The shape of the slice that each device is to hold."""

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
    sharding = nn.get_sharding(variables, mesh)["params"]["kernel"]
    kernel = variables["params"]["kernel"].value
    shard = sharding.shard_shape(kernel.shape)
    return jnp.array(shard, jnp.float32)
