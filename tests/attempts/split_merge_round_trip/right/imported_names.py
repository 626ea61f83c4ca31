"""Names imported from flax.nnx, and aliases."""

import jax.numpy as jnp
from flax.nnx import Linear, Rngs, merge as join, split


def split_merge_round_trip(seed, x, features):
    model = Linear(x.shape[-1], int(features), rngs=Rngs(int(seed)))
    twin = join(*split(model))
    y, z = model(x), twin(x)
    return jnp.array([y.sum(), z.sum(), abs(y - z).max()])
