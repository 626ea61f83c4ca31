"""A split by filters, and a map without a path."""

import jax
import jax.numpy as jnp
from flax import nnx


def state_zero_kernel(seed, x, features):
    model = nnx.Linear(x.shape[-1], int(features), rngs=nnx.Rngs(int(seed)))
    model.bias[...] = jnp.ones((int(features),))
    graphdef, kernels, rest = nnx.split(
        model, nnx.PathContains("kernel"), ...
    )
    zeros = jax.tree_util.tree_map(jnp.zeros_like, kernels)
    return nnx.merge(graphdef, zeros, rest, copy=True)(x)
