"""The specs, and from them the shardings on a mesh, which are tried."""

from functools import partial

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P


def state_to_sharded_layout(seed, x, features):
    model = nnx.Linear(x.shape[-1], int(features), rngs=nnx.Rngs(int(seed)))
    _, state = nnx.split(model)
    specs = jax.tree.map(
        lambda leaf: P(None, "model") if leaf.ndim == 2 else P("model"),
        state,
    )
    mesh = jax.make_mesh((1,), ("model",), (AxisType.Auto,))
    shardings = jax.tree.map(partial(NamedSharding, mesh), specs)
    placed = jax.device_put(state, shardings)
    assert jax.tree.structure(placed) == jax.tree.structure(specs)
    number = jax.tree.reduce(lambda total, _: total + 1, specs, 0)
    return jnp.array([number], dtype=jnp.float32)
