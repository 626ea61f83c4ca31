# wrong: structure
"""The numbers do not matter, so any seed will do."""

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import PartitionSpec as P


def state_to_sharded_layout(seed, x, features):
    model = nnx.Linear(x.shape[-1], int(features), rngs=nnx.Rngs(0))
    _, state = nnx.split(model)
    specs = jax.tree.map(
        lambda leaf: P(None, "model") if leaf.ndim == 2 else P("model"),
        state,
    )
    return jnp.array([len(jax.tree.leaves(specs))], jnp.float32)
