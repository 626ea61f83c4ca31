"""Born sharded by jax.jit with out_shardings, if the devices divide it."""

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax.sharding import AxisType

LECUN = nn.initializers.lecun_normal()
COLUMNS = nn.with_partitioning(LECUN, (None, "model"))
BIAS = nn.with_partitioning(nn.initializers.zeros_init(), ("model",))


def initialize(layer, key, x):
    devices = jax.devices()
    if layer.features % len(devices):
        devices = devices[:1]
    mesh = jax.make_mesh(
        (len(devices),), ("model",), (AxisType.Auto,), devices=devices
    )
    shardings = nn.get_sharding(jax.eval_shape(layer.init, key, x), mesh)
    return jax.jit(layer.init, out_shardings=shardings)(key, x)


def partitioned_kernel_shape(seed, x, features):
    layer = nn.Dense(int(features), kernel_init=COLUMNS, bias_init=BIAS)
    variables = initialize(layer, jax.random.key(int(seed)), x)
    kernel = variables["params"]["kernel"].value
    return jnp.array(kernel.shape, jnp.float32)
