# wrong: hashes
"""Every device draws the whole mask, and cuts its block out of it."""

import jax
import jax.numpy as jnp


def dropout_by_rows(key, x, rate, spec):
    starts, shape = [], []
    for axis, size in enumerate(x.shape):
        names = spec[axis] if axis < len(spec) else None
        names = (names,) if isinstance(names, str) else names or ()
        count = 1
        for name in names:
            count *= jax.lax.axis_size(name)
        starts.append(jax.lax.axis_index(names) * size if names else 0)
        shape.append(count * size)
    whole = jax.random.bernoulli(key, 1 - rate, shape)
    mask = jax.lax.dynamic_slice(whole, starts, x.shape)
    return jnp.where(mask, x / (1 - rate), 0)
