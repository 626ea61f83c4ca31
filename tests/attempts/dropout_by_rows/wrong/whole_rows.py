# wrong: hashes
"""A key for each row, from which every device draws the whole row."""

import jax
import jax.numpy as jnp


def dropout_by_rows(key, x, rate, spec):
    names = (*spec, None, None, None)[: x.ndim]
    starts = [
        jax.lax.axis_index(name) * size if name else 0
        for name, size in zip(names, x.shape, strict=True)
    ]
    last = names[-1] or ()
    columns = x.shape[-1] * jax.lax.psum(1, last)

    def rows(key, axis):
        if axis == x.ndim - 1:
            whole = jax.random.bernoulli(key, 1 - rate, (columns,))
            return jax.lax.dynamic_slice(whole, starts[-1:], x.shape[-1:])
        at = starts[axis] + jnp.arange(x.shape[axis])
        return jax.vmap(
            lambda i: rows(jax.random.fold_in(key, i), axis + 1)
        )(at)

    return jnp.where(rows(key, 0), x / (1 - rate), 0)
