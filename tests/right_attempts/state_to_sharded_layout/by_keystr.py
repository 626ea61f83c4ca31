"""The name of the leaf in text, and the structure asked for the count."""

import jax
import jax.numpy as jnp
import jax.tree_util as jtu
from flax import nnx
from jax.sharding import PartitionSpec as P


def state_to_sharded_layout(seed, x, features):
    model = nnx.Linear(x.shape[-1], int(features), rngs=nnx.Rngs(int(seed)))
    _, state = nnx.split(model)
    specs = jtu.tree_map_with_path(
        lambda path, leaf: (
            P(None, "model") if "kernel" in jtu.keystr(path) else P("model")
        ),
        state,
    )
    return jnp.float32(jax.tree.structure(specs).num_leaves).reshape(1)
