"""The init of the class, and the specs compared on the way."""

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax.sharding import PartitionSpec as P


def partitioned_kernel_shape(seed, x, features):
    kernel_init = nn.with_partitioning(
        nn.initializers.lecun_normal(), (None, "model")
    )
    layer = nn.Dense(int(features), kernel_init=kernel_init)
    variables = nn.Dense.init(layer, jax.random.key(int(seed)), x)
    specs = nn.get_partition_spec(variables)
    assert specs["params"]["kernel"] == P(None, "model")
    y, kernel = layer.apply(variables, x), variables["params"]["kernel"]
    assert y.shape[-1] == kernel.value.shape[-1]
    return jax.tree.map(lambda a: jnp.array(a.shape, float), kernel).value
