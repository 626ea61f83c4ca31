"""A batch of one state, by jax.vmap under jit."""

import jax
import jax.numpy as jnp
from flax import nnx


def split_merge_round_trip(seed, x, features):
    model = nnx.Linear(x.shape[-1], int(features), rngs=nnx.Rngs(int(seed)))
    before = model(x)
    graphdef, state = nnx.split(model)
    batch = jax.tree.map(lambda leaf: leaf[None], state)
    call = lambda state: nnx.merge(graphdef, state)(x)
    after = jax.jit(jax.vmap(call))(batch)[0]
    difference = jnp.max(jnp.abs(before - after))
    return jnp.stack([before.sum(), after.sum(), difference])
