# wrong: structure
"""A Module is a pytree, so jax can take it apart."""

import jax
import jax.numpy as jnp
from flax import nnx


def split_merge_round_trip(seed, x, features):
    model = nnx.Linear(x.shape[-1], int(features), rngs=nnx.Rngs(int(seed)))
    before = model(x)
    leaves, treedef = jax.tree.flatten(model)
    merged = jax.tree.unflatten(treedef, leaves)
    after = merged(x)
    difference = jnp.max(jnp.abs(before - after))
    return jnp.stack([before.sum(), after.sum(), difference])
