"""The graphdef is that of a Linear that was never filled."""

import jax.numpy as jnp
from flax import nnx
from jax.tree_util import DictKey, tree_map_with_path


def zero_if_kernel(path, leaf):
    is_kernel = path[-2] == DictKey("kernel")
    return jnp.zeros_like(leaf) if is_kernel else leaf


def build(seed, in_dim, features):
    model = nnx.Linear(in_dim, features, rngs=nnx.Rngs(seed))
    model.bias[...] = jnp.ones((features,))
    return model


def state_zero_kernel(seed, x, features):
    sizes = int(seed), x.shape[-1], int(features)
    graphdef = nnx.graphdef(nnx.eval_shape(lambda: build(*sizes)))
    state = nnx.state(build(*sizes))
    state = tree_map_with_path(zero_if_kernel, state)
    return nnx.merge(graphdef, state)(x)
