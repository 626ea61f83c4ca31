# wrong: placement
"""Zeros by NumPy."""

import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.tree_util import DictKey, tree_map_with_path


def zero_if_kernel(path, leaf):
    is_kernel = path[-2] == DictKey("kernel")
    return np.zeros_like(leaf) if is_kernel else leaf


def state_zero_kernel(seed, x, features):
    model = nnx.Linear(x.shape[-1], int(features), rngs=nnx.Rngs(int(seed)))
    model.bias[...] = jnp.ones((int(features),))
    graphdef, state = nnx.split(model)
    state = tree_map_with_path(zero_if_kernel, state)
    return nnx.merge(graphdef, state)(x)
