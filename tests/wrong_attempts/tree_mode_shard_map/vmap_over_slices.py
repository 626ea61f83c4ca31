# wrong: structure
"""A vmap whose axis is called model, over slices cut by hand."""

import math

import jax
import jax.numpy as jnp
from flax import nnx

from shardbook.problems.tree_mode_shard_map import TPLinear


def tree_mode_shard_map(seed, x, features):
    count = math.gcd(int(features), jax.device_count())
    model = TPLinear(x.shape[-1], int(features), rngs=nnx.Rngs(int(seed)))
    graphdef, state = nnx.split(model)

    def cut(array):
        if array.ndim == 0:
            return jnp.stack([array] * count)
        return jnp.stack(jnp.split(array, count, axis=-1))

    def step(state, x):
        slice_of = nnx.merge(graphdef, state)
        y = slice_of.step(x)
        del slice_of.last
        return nnx.state(slice_of), y

    step = jax.vmap(step, (0, None), axis_name="model")
    state = jax.tree.map(cut, state)
    state, _ = step(state, x)
    state, slices = step(state, x)
    y = jnp.concatenate(list(slices), axis=-1)
    books = nnx.merge(graphdef, state)
    model.colsum[...] = books.colsum[...].ravel()
    model.calls[...] = books.calls[0]
    model.cols[...] = books.cols[0]
    return jnp.array(
        [
            float(y.sum()),
            float(y[0, -1]),
            float(model.colsum[...].sum()),
            float(model.calls[...]),
            float(model.cols[...]),
            float(model.n_python),
            float(hasattr(model, "last")),
        ],
        jnp.float32,
    )
