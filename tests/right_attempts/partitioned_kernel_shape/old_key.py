"""PRNGKey in a dictionary of rngs, and init_with_output."""

import jax
import jax.numpy as jnp
from flax import linen as nn


def partitioned_kernel_shape(seed, x, features):
    kernel_init = nn.with_partitioning(
        nn.initializers.lecun_normal(), (None, "model")
    )
    layer = nn.Dense(int(features), kernel_init=kernel_init)
    rngs = {"params": jax.random.PRNGKey(int(seed))}
    _, variables = layer.init_with_output(rngs, x)
    kernel = variables["params"]["kernel"].value
    return jnp.array(kernel.shape, jnp.float32)
