# wrong: structure
"""Everything compiled, and the model called twice."""

from functools import partial

import jax
import jax.numpy as jnp
from flax import nnx


@partial(jax.jit, static_argnums=(0, 2))
def compute(seed, x, features):
    model = nnx.Linear(x.shape[-1], features, rngs=nnx.Rngs(seed))
    before = model(x)
    merged = nnx.merge(*nnx.split(model))
    after = model(x)
    difference = jnp.max(jnp.abs(before - after))
    return jnp.stack([before.sum(), after.sum(), difference])


def split_merge_round_trip(seed, x, features):
    return compute(int(seed), x, int(features))
