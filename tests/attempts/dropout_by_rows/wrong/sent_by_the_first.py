# wrong: exchange
"""Copies agree, because one device sends its numbers to the others."""

import jax
import jax.numpy as jnp


def dropout_by_rows(key, x, rate, spec):
    named = jax.tree.leaves(tuple(spec))
    others = [name for name in ("data", "model") if name not in named]
    for axis, size in enumerate(x.shape):
        names = spec[axis] if axis < len(spec) else None
        first = jax.lax.axis_index(names) * size if names else 0
        shape = [-1 if i == axis else 1 for i in range(x.ndim)]
        index = (first + jnp.arange(size)).reshape(shape)
        index = jnp.broadcast_to(index, x.shape)
        keys = key if key.ndim else jnp.broadcast_to(key, x.shape)
        fold = jax.random.fold_in
        for _ in x.shape:
            fold = jax.vmap(fold)
        key = fold(keys, index)
    draw = jax.random.uniform
    for _ in x.shape:
        draw = jax.vmap(draw)
    numbers = draw(key)
    for name in others:
        first = jax.lax.axis_index(name) == 0
        numbers = jax.lax.psum(jnp.where(first, numbers, 0), name)
    return jnp.where(numbers < rate, 0, x / (1 - rate))
