"""nnx.jit writes the new values to the Variables of the average."""

import jax
import jax.numpy as jnp
from flax import nnx


def average_weights(average, model, decay):
    flat = [
        (path, leaf)
        for path, leaf in nnx.to_flat_state(nnx.state(model, nnx.Param))
        if jnp.issubdtype(leaf.dtype, jnp.floating)
    ]
    if average is None:
        return nnx.from_flat_state(
            [
                (path, leaf.replace(jnp.array(leaf[...], jnp.float32)))
                for path, leaf in flat
            ]
        )
    move(average, nnx.from_flat_state(flat), decay)
    return average


@nnx.jit(donate_argnums=0)
def move(average, params, decay):
    def step(old, new):
        new = new[...].astype(jnp.float32)
        old[...] = old[...] * decay + new * (1.0 - decay)

    jax.tree.map(
        step,
        average,
        params,
        is_leaf=lambda node: isinstance(node, nnx.Variable),
    )
