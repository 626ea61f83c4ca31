# wrong: structure
"""The spec tree has as many leaves as the state, so count the state's."""

import jax
import jax.numpy as jnp
from flax import nnx


def state_to_sharded_layout(seed, x, features):
    model = nnx.Linear(x.shape[-1], int(features), rngs=nnx.Rngs(int(seed)))
    _, state = nnx.split(model)
    return jnp.array([len(jax.tree.leaves(state))], jnp.float32)
