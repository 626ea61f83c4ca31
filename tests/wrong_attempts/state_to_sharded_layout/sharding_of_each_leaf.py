# wrong: structure
"""Each array knows its sharding, so ask it."""

import jax
import jax.numpy as jnp
from flax import nnx


def state_to_sharded_layout(seed, x, features):
    model = nnx.Linear(x.shape[-1], int(features), rngs=nnx.Rngs(int(seed)))
    _, state = nnx.split(model)
    specs = jax.tree.map(lambda leaf: leaf.sharding, state)
    return jnp.array([len(jax.tree.leaves(specs))], jnp.float32)
