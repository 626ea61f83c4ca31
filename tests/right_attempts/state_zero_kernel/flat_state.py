"""The state as a list of paths and Variables."""

import jax.numpy as jnp
from flax import nnx


def zeros(variable):
    return variable.replace(jnp.zeros_like(variable[...]))


def state_zero_kernel(seed, x, features):
    model = nnx.Linear(x.shape[-1], int(features), rngs=nnx.Rngs(int(seed)))
    model.bias[...] = jnp.ones((int(features),))
    graphdef, state = nnx.split(model)
    flat = [
        (path, zeros(leaf) if path[-1] == "kernel" else leaf)
        for path, leaf in nnx.to_flat_state(state)
    ]
    return nnx.merge(graphdef, nnx.from_flat_state(flat))(x)
