# wrong: deprecated
"""The state is flattened by its own method."""

import jax.numpy as jnp
from flax import nnx


def state_zero_kernel(seed, x, features):
    model = nnx.Linear(x.shape[-1], int(features), rngs=nnx.Rngs(int(seed)))
    model.bias[...] = jnp.ones((int(features),))
    graphdef, state = nnx.split(model)
    for path, variable in state.flat_state():
        if path[-1] == "kernel":
            variable[...] = jnp.zeros_like(variable[...])
    return nnx.merge(graphdef, state)(x)
