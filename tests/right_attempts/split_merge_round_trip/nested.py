"""The Linear inside of a Module, which makes the trip with it."""

import jax.numpy as jnp
from flax import nnx


class Net(nnx.Module):
    def __init__(self, *sizes, rngs):
        self.layer = nnx.Linear(*sizes, rngs=rngs)

    def __call__(self, x):
        return self.layer(x)


def split_merge_round_trip(seed, x, features):
    model = Net(x.shape[-1], int(features), rngs=nnx.Rngs(int(seed)))
    before = model(x)
    graphdef, state = nnx.split(model)
    merged = nnx.merge(graphdef, state)
    after = merged(x)
    difference = jnp.max(jnp.abs(before - after))
    return jnp.stack([before.sum(), after.sum(), difference])
