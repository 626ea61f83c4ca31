"""An initializer that boxes as nn.with_partitioning does."""

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax.sharding import PartitionSpec as P


def kernel_init(key, shape, dtype=jnp.float32):
    array = nn.initializers.lecun_normal()(key, shape, dtype)
    return nn.Partitioned(array, names=P(None, "model"))


def partitioned_kernel_shape(seed, x, features):
    layer = nn.Dense(int(features), kernel_init=kernel_init)
    variables = layer.init(jax.random.key(int(seed)), x)
    kernel = variables["params"]["kernel"].value
    return jnp.array(kernel.shape, jnp.float32)
