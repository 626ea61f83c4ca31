"""nnx.EMA inside jit, where the decay may be an argument."""

from functools import partial

import jax
import jax.numpy as jnp
from flax import nnx


def floats(model):
    def wanted(path, variable):
        return jnp.issubdtype(variable.dtype, jnp.floating)

    params = nnx.state(model, nnx.All(nnx.Param, wanted))
    return params


@jax.jit
def start(params):
    return jax.tree.map(lambda p: jnp.copy(p).astype("float32"), params)


@partial(jax.jit, donate_argnames="average")
def update(average, params, decay):
    ema = nnx.EMA(average, decay)
    ema.update(jax.tree.map(lambda p: p.astype("float32"), params))
    return ema.params


def average_weights(average, model, decay):
    params = floats(model)
    if average is None:
        return start(params)
    return update(average, params, decay)
