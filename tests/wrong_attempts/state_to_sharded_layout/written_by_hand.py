# wrong: values
"""The state of a Linear is known, so write the spec tree down."""

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import PartitionSpec as P


def state_to_sharded_layout(seed, x, features):
    model = nnx.Linear(x.shape[-1], int(features), rngs=nnx.Rngs(int(seed)))
    assert model.in_features == x.shape[-1]
    specs = nnx.State({"kernel": P(None, "model"), "bias": P("model")})
    return jnp.array([len(jax.tree.leaves(specs))], jnp.float32)
