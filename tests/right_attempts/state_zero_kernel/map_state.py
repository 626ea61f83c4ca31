"""nnx.map_state, with a lambda, all in one expression."""

import jax.numpy as jnp
from flax import nnx
from flax.nnx import map_state, merge


def state_zero_kernel(seed, x, features):
    model = nnx.Linear(x.shape[-1], int(features), rngs=nnx.Rngs(int(seed)))
    model.bias[...] = 1.0
    graphdef, state = nnx.split(model)
    return merge(
        graphdef,
        map_state(
            lambda path, variable: (
                variable.replace(jnp.zeros_like(variable[...]))
                if path[-1] == "kernel"
                else variable
            ),
            state,
        ),
    )(x)
