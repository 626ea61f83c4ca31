"""Built from Rngs under nnx.jit, and called under nnx.jit."""

import functools

import jax.numpy as jnp
from flax import nnx
from jax.tree_util import DictKey, tree_map_with_path


def zero_if_kernel(path, leaf):
    is_kernel = path[-2] == DictKey("kernel")
    return jnp.zeros_like(leaf) if is_kernel else leaf


@functools.partial(nnx.jit, static_argnums=(1, 2))
def build(rngs, in_dim, features):
    model = nnx.Linear(in_dim, features, rngs=rngs)
    model.bias[...] = jnp.ones((features,))
    return model


@nnx.jit
def call(model, x):
    return model(x)


def state_zero_kernel(seed, x, features):
    model = build(nnx.Rngs(int(seed)), x.shape[-1], int(features))
    graphdef, state = nnx.split(model)
    state = tree_map_with_path(zero_if_kernel, state)
    return call(nnx.merge(graphdef, state), x)
