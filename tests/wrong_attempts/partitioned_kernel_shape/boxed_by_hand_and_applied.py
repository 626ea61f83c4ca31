# wrong: structure
"""Boxed after init, and the layer applied to the boxes."""

import jax
import jax.numpy as jnp
from flax import linen as nn


def partitioned_kernel_shape(seed, x, features):
    layer = nn.Dense(int(features))
    variables = layer.init(jax.random.key(int(seed)), x)
    params = variables["params"]
    params["kernel"] = nn.Partitioned(params["kernel"], (None, "model"))
    layer.apply(variables, x)
    return jnp.array(params["kernel"].value.shape, jnp.float32)
