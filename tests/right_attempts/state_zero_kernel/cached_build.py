"""A model is built once for each set of arguments."""

import functools

import jax.numpy as jnp
from flax import nnx
from jax.tree_util import DictKey, tree_map_with_path


def zero_if_kernel(path, leaf):
    is_kernel = path[-2] == DictKey("kernel")
    return jnp.zeros_like(leaf) if is_kernel else leaf


@functools.cache
def split_model(seed, in_dim, features):
    model = nnx.Linear(in_dim, features, rngs=nnx.Rngs(seed))
    model.bias[...] = jnp.ones((features,))
    return nnx.split(model)


def state_zero_kernel(seed, x, features):
    graphdef, state = split_model(int(seed), x.shape[-1], int(features))
    state = tree_map_with_path(zero_if_kernel, state)
    return nnx.merge(graphdef, state)(x)
