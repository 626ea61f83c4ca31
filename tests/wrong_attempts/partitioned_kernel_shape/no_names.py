# wrong: structure
"""Dense draws by lecun_normal anyway."""

import jax
import jax.numpy as jnp
from flax import linen as nn


def partitioned_kernel_shape(seed, x, features):
    layer = nn.Dense(int(features))
    variables = layer.init(jax.random.key(int(seed)), x)
    kernel = nn.unbox(variables)["params"]["kernel"]
    return jnp.array(kernel.shape, jnp.float32)
