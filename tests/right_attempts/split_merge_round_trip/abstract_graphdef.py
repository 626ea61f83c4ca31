"""The graphdef of a model that was never filled."""

import jax.numpy as jnp
from flax import nnx


def split_merge_round_trip(seed, x, features):
    def build():
        return nnx.Linear(
            x.shape[-1], int(features), rngs=nnx.Rngs(int(seed))
        )

    graphdef = nnx.graphdef(nnx.eval_shape(build))
    model = build()
    before = model(x)
    after = nnx.merge(graphdef, nnx.state(model))(x)
    difference = jnp.max(jnp.abs(before - after))
    return jnp.stack([before.sum(), after.sum(), difference])
