"""Compiled whole, with the seed as an argument of the program."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.sharding import PartitionSpec as P


@partial(jax.jit, static_argnums=2)
def layout(seed, x, features):
    rngs = nnx.Rngs(jax.random.key(seed))
    model = nnx.Linear(x.shape[-1], features, rngs=rngs)
    _, state = nnx.split(model)
    specs = jax.tree.map(
        lambda leaf: P(None, "model") if leaf.ndim == 2 else P("model"),
        state,
    )
    return jnp.array([len(jax.tree.leaves(specs))], jnp.float32)


def state_to_sharded_layout(seed, x, features):
    return layout(np.uint32(seed), x, int(features))
