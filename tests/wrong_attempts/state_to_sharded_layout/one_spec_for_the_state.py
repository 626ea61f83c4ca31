# wrong: values
"""One spec in the place of the whole state stands for all leaves."""

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import PartitionSpec as P


def state_to_sharded_layout(seed, x, features):
    model = nnx.Linear(x.shape[-1], int(features), rngs=nnx.Rngs(int(seed)))
    specs = P(None, "model")
    assert model.in_features == x.shape[-1]
    return jnp.array([len(jax.tree.leaves(specs))], jnp.float32)
