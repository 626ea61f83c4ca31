# wrong: placement
"""The kernel is cut over its first axis, by the inputs."""

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import PartitionSpec as P


def state_to_sharded_layout(seed, x, features):
    model = nnx.Linear(x.shape[-1], int(features), rngs=nnx.Rngs(int(seed)))
    _, state = nnx.split(model)

    def pick_spec(leaf):
        return P("model", None) if leaf.ndim == 2 else P("model")

    specs = jax.tree.map(pick_spec, state)
    return jnp.array([len(jax.tree.leaves(specs))], jnp.float32)
