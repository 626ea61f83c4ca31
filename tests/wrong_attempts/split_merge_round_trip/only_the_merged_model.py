# wrong: structure
"""Both outputs from the merged model."""

import jax.numpy as jnp
from flax import nnx


def split_merge_round_trip(seed, x, features):
    model = nnx.Linear(x.shape[-1], int(features), rngs=nnx.Rngs(int(seed)))
    graphdef, state = nnx.split(model)
    merged = nnx.merge(graphdef, state)
    before = merged(x)
    after = merged(x)
    difference = jnp.max(jnp.abs(before - after))
    return jnp.stack([before.sum(), after.sum(), difference])
