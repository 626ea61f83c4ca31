"""Born sharded by jax.jit with out_shardings, if the devices divide it."""

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax.sharding import AxisType

LECUN = nn.initializers.lecun_normal()
COLUMNS = nn.with_partitioning(LECUN, (None, "model"))
CUT_BIAS = nn.with_partitioning(nn.initializers.zeros_init(), ("model",))


def initialise(layer, key, x):
    count = jax.device_count() if layer.features % 8 == 0 else 1
    mesh = jax.make_mesh(
        *((count,), ("model",), (AxisType.Auto,)),
        devices=jax.devices()[:count],
    )
    shardings = nn.get_sharding(jax.eval_shape(layer.init, key, x), mesh)
    return jax.jit(layer.init, out_shardings=shardings)(key, x)


def partitioned_kernel_shape(seed, x, features):
    layer = nn.Dense(int(features), kernel_init=COLUMNS, bias_init=CUT_BIAS)
    variables = initialise(layer, jax.random.key(int(seed)), x)
    kernel = variables["params"]["kernel"].value
    return jnp.array(kernel.shape, jnp.float32)
