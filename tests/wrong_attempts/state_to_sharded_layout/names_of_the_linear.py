# wrong: values
"""Ask the Linear for the names that it is known to have."""

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import PartitionSpec as P


def state_to_sharded_layout(seed, x, features):
    model = nnx.Linear(x.shape[-1], int(features), rngs=nnx.Rngs(int(seed)))
    specs = {
        name: P(None, "model") if name == "kernel" else P("model")
        for name in ("kernel", "bias")
        if getattr(model, name) is not None
    }
    return jnp.array([len(jax.tree.leaves(specs))], jnp.float32)
