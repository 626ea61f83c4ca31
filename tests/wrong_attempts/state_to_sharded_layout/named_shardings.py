# wrong: structure
"""A NamedSharding has the spec, and the mesh that it needs."""

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import NamedSharding, PartitionSpec as P


def state_to_sharded_layout(seed, x, features):
    model = nnx.Linear(x.shape[-1], int(features), rngs=nnx.Rngs(int(seed)))
    _, state = nnx.split(model)
    mesh = jax.make_mesh((jax.device_count(),), ("model",))

    def pick_sharding(leaf):
        spec = P(None, "model") if leaf.ndim == 2 else P("model")
        return NamedSharding(mesh, spec)

    specs = jax.tree.map(pick_sharding, state)
    return jnp.array([len(jax.tree.leaves(specs))], jnp.float32)
