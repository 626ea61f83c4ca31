"""nnx.flatten and nnx.unflatten, the lower level."""

import jax.numpy as jnp
from flax import nnx


def split_merge_round_trip(seed, x, features):
    model = nnx.Linear(x.shape[-1], int(features), rngs=nnx.Rngs(int(seed)))
    before = model(x)
    graphdef, leaves = nnx.flatten(model)
    merged = nnx.unflatten(graphdef, leaves)
    after = merged(x)
    difference = jnp.max(jnp.abs(before - after))
    return jnp.stack([before.sum(), after.sum(), difference])
