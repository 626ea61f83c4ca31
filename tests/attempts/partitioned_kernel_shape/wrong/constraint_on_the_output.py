# wrong: kernel_box
"""The activation is split, the parameter is not."""

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P


def partitioned_kernel_shape(seed, x, features):
    mesh = jax.make_mesh((1,), ("model",), (AxisType.Auto,))
    columns = NamedSharding(mesh, P(None, "model"))
    layer = nn.Dense(int(features))
    y, variables = layer.init_with_output(jax.random.key(int(seed)), x)
    jax.lax.with_sharding_constraint(y, columns)
    kernel = variables["params"]["kernel"]
    return jnp.array(kernel.shape, jnp.float32)
