"""By jax.eval_shape, with no array; the initializer at module level."""

import jax
import jax.numpy as jnp
from flax import linen as nn

KERNEL_INIT = nn.with_partitioning(
    nn.initializers.lecun_normal(), (None, "model")
)


def partitioned_kernel_shape(seed, x, features):
    layer = nn.Dense(int(features), kernel_init=KERNEL_INIT)
    key = jax.random.key(int(seed))
    abstract = jax.eval_shape(layer.init, key, x)
    kernel = abstract["params"]["kernel"].value
    return jnp.array(kernel.shape, jnp.float32)
