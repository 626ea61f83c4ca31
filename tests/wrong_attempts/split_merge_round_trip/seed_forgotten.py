# wrong: values
"""The seed is forgotten: every model is that of seed 0."""

import jax.numpy as jnp
from flax import nnx


def split_merge_round_trip(seed, x, features):
    model = nnx.Linear(x.shape[-1], int(features), rngs=nnx.Rngs(0))
    before = model(x)
    graphdef, state = nnx.split(model)
    merged = nnx.merge(graphdef, state)
    after = merged(x)
    difference = jnp.max(jnp.abs(before - after))
    return jnp.stack([before.sum(), after.sum(), difference])
