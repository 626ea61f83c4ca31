# wrong: placement
"""The state on every device, whole."""

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import NamedSharding, PartitionSpec


def split_merge_round_trip(seed, x, features):
    model = nnx.Linear(x.shape[-1], int(features), rngs=nnx.Rngs(int(seed)))
    before = model(x)
    graphdef, state = nnx.split(model)
    mesh = jax.make_mesh((jax.device_count(),), ("model",))
    state = jax.device_put(state, NamedSharding(mesh, PartitionSpec()))
    merged = nnx.merge(graphdef, state)
    after = merged(x)
    difference = jnp.max(jnp.abs(before - after))
    return jnp.stack([before.sum(), after.sum(), difference])
