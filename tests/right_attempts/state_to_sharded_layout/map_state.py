"""Flax maps the state, and nothing is held in a variable."""

import jax.numpy as jnp
from flax import nnx
from flax.nnx import map_state, to_flat_state
from jax.sharding import PartitionSpec as P


def state_to_sharded_layout(seed, x, features):
    model = nnx.Linear(x.shape[-1], int(features), rngs=nnx.Rngs(int(seed)))
    return jnp.array(
        [
            len(
                to_flat_state(
                    map_state(
                        lambda path, leaf: (
                            P(None, "model")
                            if path[-1] == "kernel"
                            else P("model")
                        ),
                        nnx.state(model),
                    )
                )
            )
        ],
        jnp.float32,
    )
