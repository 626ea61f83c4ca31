# wrong: structure
"""The Linear multiplies by zeros, whatever its kernel is."""

import jax
import jax.numpy as jnp
from flax import nnx


def dot_with_zeros(x, kernel, dimensions, **more):
    zeros = jnp.zeros_like(kernel)
    return jax.lax.dot_general(x, zeros, dimensions)


def state_zero_kernel(seed, x, features):
    model = nnx.Linear(
        x.shape[-1],
        int(features),
        dot_general=dot_with_zeros,
        rngs=nnx.Rngs(int(seed)),
    )
    model.bias[...] = jnp.ones((int(features),))
    graphdef, state = nnx.split(model)
    return nnx.merge(graphdef, state)(x)
