# wrong: structure
"""No bias in the Linear; the ones are added to the output."""

import jax.numpy as jnp
from flax import nnx
from jax.tree_util import DictKey, tree_map_with_path


def zero_if_kernel(path, leaf):
    is_kernel = path[-2] == DictKey("kernel")
    return jnp.zeros_like(leaf) if is_kernel else leaf


def state_zero_kernel(seed, x, features):
    model = nnx.Linear(
        x.shape[-1],
        int(features),
        use_bias=False,
        rngs=nnx.Rngs(int(seed)),
    )
    graphdef, state = nnx.split(model)
    state = tree_map_with_path(zero_if_kernel, state)
    return nnx.merge(graphdef, state)(x) + 1.0
