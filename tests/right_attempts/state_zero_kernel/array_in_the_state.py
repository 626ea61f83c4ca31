"""The state is a mapping, and gets an array."""

import jax.numpy as jnp
from flax import nnx


def state_zero_kernel(seed, x, features):
    model = nnx.Linear(x.shape[-1], int(features), rngs=nnx.Rngs(int(seed)))
    model.bias[...] = jnp.ones((int(features),))
    graphdef, state = nnx.split(model)
    state["kernel"] = jnp.zeros_like(state["kernel"][...])
    return nnx.merge(graphdef, state)(x)
