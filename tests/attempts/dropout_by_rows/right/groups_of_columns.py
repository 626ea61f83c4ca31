"""A key for eight columns of a row, which no block of a case divides."""

import jax
import jax.numpy as jnp

GROUP = 8


def dropout_by_rows(key, x, rate, spec):
    names = list(spec) + [None] * (x.ndim - len(spec))

    def start(axis):
        if not names[axis]:
            return 0
        return jax.lax.axis_index(names[axis]) * x.shape[axis]

    def numbers(key, axis):
        fold = jax.vmap(jax.random.fold_in, (None, 0))
        size = x.shape[axis]
        if axis < x.ndim - 1:
            keys = fold(key, start(axis) + jnp.arange(size))
            return jax.vmap(lambda key: numbers(key, axis + 1))(keys)
        keys = fold(key, start(axis) // GROUP + jnp.arange(size // GROUP))
        draw = jax.vmap(lambda key: jax.random.uniform(key, (GROUP,)))
        return draw(keys).reshape(size)

    return jnp.where(numbers(key, 0) < rate, 0, x / (1 - rate))
