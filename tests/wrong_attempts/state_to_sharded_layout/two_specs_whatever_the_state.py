# crashed: values
"""The treedef of the state takes two specs."""

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import PartitionSpec as P


def state_to_sharded_layout(seed, x, features):
    model = nnx.Linear(x.shape[-1], int(features), rngs=nnx.Rngs(int(seed)))
    _, state = nnx.split(model)
    treedef = jax.tree.structure(state)
    specs = jax.tree.unflatten(treedef, [P("model"), P(None, "model")])
    return jnp.array([len(jax.tree.leaves(specs))], jnp.float32)
