"""Flattened with paths, and unflattened."""

import jax
import jax.numpy as jnp
from flax import nnx


def name(key):
    return getattr(key, "name", None)


def state_zero_kernel(seed, x, features):
    model = nnx.Linear(x.shape[-1], int(features), rngs=nnx.Rngs(int(seed)))
    model.bias[...] = jnp.ones((int(features),))
    leaves, structure = jax.tree.flatten_with_path(model)
    leaves = [
        jnp.full_like(leaf, 0) if "kernel" in map(name, path) else leaf
        for path, leaf in leaves
    ]
    return jax.tree.unflatten(structure, leaves)(x)
