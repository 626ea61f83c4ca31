# wrong: structure
"""All leaves are zeroed, and the bias is set to ones after that."""

import jax
import jax.numpy as jnp
from flax import nnx


def state_zero_kernel(seed, x, features):
    model = nnx.Linear(x.shape[-1], int(features), rngs=nnx.Rngs(int(seed)))
    graphdef, state = nnx.split(model)
    state = jax.tree.map(jnp.zeros_like, state)
    model = nnx.merge(graphdef, state)
    model.bias[...] = jnp.ones((int(features),))
    return model(x)
