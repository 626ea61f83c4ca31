# wrong: values
"""The state goes through float16 to save half of the bytes."""

import jax
import jax.numpy as jnp
from flax import nnx


def split_merge_round_trip(seed, x, features):
    model = nnx.Linear(x.shape[-1], int(features), rngs=nnx.Rngs(int(seed)))
    before = model(x)
    graphdef, state = nnx.split(model)
    state = jax.tree.map(lambda leaf: leaf.astype(jnp.float16), state)
    merged = nnx.merge(graphdef, state)
    after = merged(x)
    difference = jnp.max(jnp.abs(before - after))
    return jnp.stack([before.sum(), after.sum(), difference])
