"""Row by row in a loop, each with a key of jax.random.split."""

import math

import jax
import jax.numpy as jnp


def dropout_by_rows(key, x, rate, spec):
    spec = list(spec) + [None] * (x.ndim - len(spec))

    def size(names):
        names = (names,) if isinstance(names, str) else names or ()
        return math.prod(jax.lax.axis_size(name) for name in names)

    def start(axis):
        if spec[axis] is None:
            return 0
        return jax.lax.axis_index(spec[axis]) * x.shape[axis]

    keys = jax.random.split(key, size(spec[0]) * x.shape[0])
    own = jax.lax.dynamic_slice_in_dim(keys, start(0), x.shape[0])
    # The place of an entry in its row, of which there are fewer than 2**32.
    place = jnp.zeros(x.shape[1:], jnp.int32)
    for axis in range(1, x.ndim):
        shape = [1] * (x.ndim - 1)
        shape[axis - 1] = -1
        at = start(axis) + jnp.arange(x.shape[axis])
        length = size(spec[axis]) * x.shape[axis]
        place = place * length + at.reshape(shape)

    def of_row(given):
        key, row = given
        keys = jax.vmap(lambda i: jax.random.fold_in(key, i))(place.ravel())
        numbers = jax.vmap(jax.random.uniform)(keys).reshape(row.shape)
        return jnp.where(numbers < rate, jnp.zeros_like(row), row)

    return jax.lax.map(of_row, (own, x)) / (1 - rate)
