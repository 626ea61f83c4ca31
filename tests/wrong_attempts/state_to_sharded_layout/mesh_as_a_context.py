# wrong: deprecated
"""Specs are made within a mesh."""

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import PartitionSpec as P


def state_to_sharded_layout(seed, x, features):
    model = nnx.Linear(x.shape[-1], int(features), rngs=nnx.Rngs(int(seed)))
    _, state = nnx.split(model)
    with jax.make_mesh((jax.device_count(),), ("model",)):
        specs = jax.tree.map(
            lambda leaf: P(None, "model") if leaf.ndim == 2 else P("model"),
            state,
        )
    return jnp.array([len(jax.tree.leaves(specs))], jnp.float32)
