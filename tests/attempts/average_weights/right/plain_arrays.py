"""A State of arrays, laid out by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx


def mix(average, params, step_size):
    params = jax.tree.map(lambda p: p.astype(np.float32), params)
    return optax.incremental_update(params, average, step_size)


COMPILED = {}


def average_weights(average, model, decay):
    params = nnx.as_pure(
        nnx.state(
            model,
            lambda _, leaf: (
                isinstance(leaf, nnx.Param)
                and leaf.dtype in (jnp.float32, jnp.bfloat16)
            ),
        )
    )
    shardings = jax.tree.map(lambda p: p.sharding, params)
    leaves, treedef = jax.tree.flatten(shardings)
    if average is None:
        return jax.tree.map(
            lambda p: jax.device_put(
                jnp.array(p, dtype=np.float32), p.sharding
            ),
            params,
        )
    key = treedef, tuple(leaves)
    if key not in COMPILED:
        COMPILED[key] = jax.jit(
            mix, donate_argnums=0, out_shardings=shardings
        )
    return COMPILED[key](average, params, np.float32(1 - decay))
