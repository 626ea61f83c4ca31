# wrong: structure
"""The specs are written down, and the state is counted."""

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import PartitionSpec as P


def state_to_sharded_layout(seed, x, features):
    model = nnx.Linear(x.shape[-1], int(features), rngs=nnx.Rngs(int(seed)))
    _, state = nnx.split(model)
    specs = nnx.State({"kernel": P(None, "model"), "bias": P("model")})
    assert len(specs) == 2
    return jnp.array([len(jax.tree.leaves(state))], jnp.float32)
