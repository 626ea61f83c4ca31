"""The Linear is made by a compiled function."""

import jax.numpy as jnp
from flax import nnx


@nnx.jit(static_argnums=(0, 1, 2))
def build(inputs, features, seed):
    return nnx.Linear(inputs, features, rngs=nnx.Rngs(seed))


def split_merge_round_trip(seed, x, features):
    model = build(x.shape[-1], int(features), int(seed))
    before = model(x)
    graphdef, state = nnx.split(model)
    merged = nnx.merge(graphdef, state)
    after = merged(x)
    difference = jnp.max(jnp.abs(before - after))
    return jnp.stack([before.sum(), after.sum(), difference])
