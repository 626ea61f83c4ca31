# wrong: deprecated
"""The array of a Variable is its value."""

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import PartitionSpec as P


def state_to_sharded_layout(seed, x, features):
    model = nnx.Linear(x.shape[-1], int(features), rngs=nnx.Rngs(int(seed)))
    _, state = nnx.split(model)
    specs = nnx.map_state(
        lambda path, leaf: (
            P(None, "model") if leaf.value.ndim == 2 else P("model")
        ),
        state,
    )
    return jnp.array([len(jax.tree.leaves(specs))], jnp.float32)
