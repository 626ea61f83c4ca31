# wrong: structure
"""The kernel is the second of the leaves."""

import jax
import jax.numpy as jnp
from flax import nnx


def state_zero_kernel(seed, x, features):
    model = nnx.Linear(x.shape[-1], int(features), rngs=nnx.Rngs(int(seed)))
    model.bias[...] = jnp.ones((int(features),))
    graphdef, state = nnx.split(model)
    leaves, structure = jax.tree.flatten(state)
    leaves[1] = jnp.zeros_like(leaves[1])
    state = jax.tree.unflatten(structure, leaves)
    return nnx.merge(graphdef, state)(x)
