# wrong: structure
"""The absolute value of the largest difference, inside out."""

import jax.numpy as jnp
from flax import nnx


def split_merge_round_trip(seed, x, features):
    model = nnx.Linear(x.shape[-1], int(features), rngs=nnx.Rngs(int(seed)))
    before = model(x)
    graphdef, state = nnx.split(model)
    merged = nnx.merge(graphdef, state)
    after = merged(x)
    difference = jnp.abs(jnp.max(after - before))
    return jnp.stack([before.sum(), after.sum(), difference])
