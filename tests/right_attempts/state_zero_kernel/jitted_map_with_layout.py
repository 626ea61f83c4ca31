"""The map is jitted, and asks for the layout."""

import jax
import jax.numpy as jnp
from flax import nnx
from jax.tree_util import DictKey, tree_map_with_path


def zero_if_kernel(path, leaf):
    is_kernel = path[-2] == DictKey("kernel")
    return jnp.zeros_like(leaf) if is_kernel else leaf


def state_zero_kernel(seed, x, features):
    model = nnx.Linear(x.shape[-1], int(features), rngs=nnx.Rngs(int(seed)))
    model.bias[...] = jnp.ones((int(features),))
    graphdef, state = nnx.split(model)
    layouts = jax.tree.map(lambda leaf: leaf.sharding, state)
    zero_kernels = jax.jit(
        lambda state: tree_map_with_path(zero_if_kernel, state),
        out_shardings=layouts,
    )
    return jax.jit(nnx.merge(graphdef, zero_kernels(state)))(x)
