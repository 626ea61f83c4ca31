"""Both outputs in one array, and the difference by jnp.ptp."""

import functools

import jax.numpy as jnp
from flax import nnx


def split_merge_round_trip(seed, x, features):
    model = nnx.Linear(x.shape[-1], int(features), rngs=nnx.Rngs(int(seed)))
    trip = functools.partial(nnx.merge, nnx.graphdef(model))
    outputs = jnp.stack([model(x), trip(nnx.state(model))(x)])
    return jnp.append(outputs.sum(1), jnp.ptp(outputs, 0).max())
