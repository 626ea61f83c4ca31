# wrong: placement
"""The bias comes first and the kernel second, so pair them in order."""

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import PartitionSpec as P


def state_to_sharded_layout(seed, x, features):
    model = nnx.Linear(x.shape[-1], int(features), rngs=nnx.Rngs(int(seed)))
    _, state = nnx.split(model)
    leaves, treedef = jax.tree.flatten(state)
    both = (P("model"), P(None, "model"), P(), P())
    specs = jax.tree.unflatten(treedef, both[: len(leaves)])
    return jnp.array([len(jax.tree.leaves(specs))], jnp.float32)
