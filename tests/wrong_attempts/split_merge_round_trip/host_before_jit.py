# wrong: placement
"""A compiled call on a state that was fetched to the host."""

from functools import partial

import jax
import jax.numpy as jnp
from flax import nnx


def split_merge_round_trip(seed, x, features):
    model = nnx.Linear(x.shape[-1], int(features), rngs=nnx.Rngs(int(seed)))
    before = model(x)
    graphdef, state = nnx.split(model)
    state = jax.device_get(state)
    after = apply(graphdef, state, x)
    difference = jnp.max(jnp.abs(before - after))
    return jnp.stack([before.sum(), after.sum(), difference])


@partial(jax.jit, static_argnums=0)
def apply(graphdef, state, x):
    return nnx.merge(graphdef, state)(x)
