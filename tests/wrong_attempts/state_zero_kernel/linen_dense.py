# wrong: structure
"""A Dense of Linen, whose parameters are a dict."""

import flax.linen as nn
import jax
import jax.numpy as jnp


def zero_if_kernel(path, leaf):
    is_kernel = path[-1].key == "kernel"
    return jnp.zeros_like(leaf) if is_kernel else leaf


def state_zero_kernel(seed, x, features):
    model = nn.Dense(int(features), bias_init=nn.initializers.ones)
    params = model.init(jax.random.key(int(seed)), x)
    params = jax.tree_util.tree_map_with_path(zero_if_kernel, params)
    return model.apply(params, x)
