# crashed: contract
"""The leaves under other names, which merge does not look at."""

import jax.numpy as jnp
from flax import nnx


def split_merge_round_trip(seed, x, features):
    model = nnx.Linear(x.shape[-1], int(features), rngs=nnx.Rngs(int(seed)))
    before = model(x)
    graphdef, state = nnx.split(model)
    renamed = {"z": state["bias"], "w": state["kernel"]}
    merged = nnx.merge(graphdef, renamed)
    after = merged(x)
    difference = jnp.max(jnp.abs(before - after))
    return jnp.stack([before.sum(), after.sum(), difference])
