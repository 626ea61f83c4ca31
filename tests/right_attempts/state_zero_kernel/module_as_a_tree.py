"""The Module itself is mapped, by keys of its own kind."""

import jax.numpy as jnp
from flax import nnx
from jax.tree_util import GetAttrKey, tree_map_with_path


def zero_if_kernel(path, leaf):
    is_kernel = path[-2] == GetAttrKey("kernel")
    return jnp.zeros_like(leaf) if is_kernel else leaf


def state_zero_kernel(seed, x, features):
    model = nnx.Linear(x.shape[-1], int(features), rngs=nnx.Rngs(int(seed)))
    model.bias[...] = jnp.ones((int(features),))
    return tree_map_with_path(zero_if_kernel, model)(x)
