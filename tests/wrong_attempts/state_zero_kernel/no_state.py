# wrong: structure
"""The kernel is written to without a state."""

import jax.numpy as jnp
from flax import nnx


def state_zero_kernel(seed, x, features):
    model = nnx.Linear(x.shape[-1], int(features), rngs=nnx.Rngs(int(seed)))
    model.bias[...] = jnp.ones((int(features),))
    model.kernel[...] = jnp.zeros_like(model.kernel[...])
    return model(x)
