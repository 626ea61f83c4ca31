"""The round trip inside of nnx.jit, which gives the merged model back."""

import jax.numpy as jnp
from flax import nnx


@nnx.jit
def trip(model):
    return nnx.merge(*nnx.split(model), copy=True)


def split_merge_round_trip(seed, x, features):
    model = nnx.Linear(x.shape[-1], int(features), rngs=nnx.Rngs(int(seed)))
    before = model(x)
    merged = trip(model)
    after = merged(x)
    difference = jnp.max(jnp.abs(before - after))
    return jnp.stack([before.sum(), after.sum(), difference])
