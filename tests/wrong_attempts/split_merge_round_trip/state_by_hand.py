# wrong: structure
"""The state of a Linear is a kernel and a bias."""

import jax.numpy as jnp
from flax import nnx


def split_merge_round_trip(seed, x, features):
    model = nnx.Linear(x.shape[-1], int(features), rngs=nnx.Rngs(int(seed)))
    before = model(x)
    state = {"kernel": model.kernel, "bias": model.bias}
    merged = nnx.merge(nnx.graphdef(model), state)
    after = merged(x)
    difference = jnp.max(jnp.abs(before - after))
    return jnp.stack([before.sum(), after.sum(), difference])
