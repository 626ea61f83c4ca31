"""Both models called by an nnx.jit in tree mode."""

import jax.numpy as jnp
from flax import nnx


@nnx.jit(graph=False, graph_updates=False)
def call(model, x):
    return model(x)


def split_merge_round_trip(seed, x, features):
    model = nnx.Linear(x.shape[-1], int(features), rngs=nnx.Rngs(int(seed)))
    before = call(model, x)
    graphdef, state = nnx.split(model)
    merged = nnx.merge(graphdef, state)
    after = call(merged, x)
    difference = jnp.max(jnp.abs(before - after))
    return jnp.stack([before.sum(), after.sum(), difference])
