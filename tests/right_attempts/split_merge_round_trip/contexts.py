"""Split and merge by their contexts."""

import jax.numpy as jnp
from flax import nnx


def split_merge_round_trip(seed, x, features):
    model = nnx.Linear(x.shape[-1], int(features), rngs=nnx.Rngs(int(seed)))
    before = model(x)
    with nnx.split_context() as context:
        graphdef, state = context.split(model)
    with nnx.merge_context() as context:
        merged = context.merge(graphdef, state)
    after = merged(x)
    difference = jnp.max(jnp.abs(before - after))
    return jnp.stack([before.sum(), after.sum(), difference])
