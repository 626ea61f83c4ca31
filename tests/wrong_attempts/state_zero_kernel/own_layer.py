# wrong: structure
"""A Linear of my own, which is the same."""

import jax
import jax.numpy as jnp
from flax import nnx
from jax.tree_util import DictKey, tree_map_with_path


class Linear(nnx.Module):
    def __init__(self, in_dim, features, rngs):
        kernel = jax.random.normal(rngs.params(), (in_dim, features))
        self.kernel = nnx.Param(kernel)
        self.bias = nnx.Param(jnp.ones((features,)))

    def __call__(self, x):
        return x @ self.kernel[...] + self.bias[...]


def zero_if_kernel(path, leaf):
    is_kernel = path[-2] == DictKey("kernel")
    return jnp.zeros_like(leaf) if is_kernel else leaf


def state_zero_kernel(seed, x, features):
    model = Linear(x.shape[-1], int(features), rngs=nnx.Rngs(int(seed)))
    graphdef, state = nnx.split(model)
    state = tree_map_with_path(zero_if_kernel, state)
    return nnx.merge(graphdef, state)(x)
