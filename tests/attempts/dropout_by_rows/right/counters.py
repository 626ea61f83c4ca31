"""The counters of jax.random.bits: the mask that bernoulli has in jit."""

import jax
import jax.numpy as jnp
from jax.extend.random import threefry2x32_p


def dropout_by_rows(key, x, rate, spec):
    names = tuple(spec) + (None,) * (x.ndim - len(spec))
    place, size = jnp.uint32(0), 1
    for axis in reversed(range(x.ndim)):
        own = jax.lax.broadcasted_iota(jnp.uint32, x.shape, axis)
        length = x.shape[axis]
        if names[axis]:
            at = jax.lax.axis_index(names[axis])
            own += (at * length).astype(jnp.uint32)
            length *= jax.lax.axis_size(names[axis])
        place += own * jnp.uint32(size)
        size *= length
    data = jax.random.key_data(key)
    high, low = threefry2x32_p.bind(
        jnp.broadcast_to(data[0], x.shape) + 0 * place,
        jnp.broadcast_to(data[1], x.shape) + 0 * place,
        0 * place,
        place,
    )
    number = jax.lax.shift_right_logical(high ^ low, jnp.uint32(9))
    return jnp.where(number < (1 - rate) * 2**23, x / (1 - rate), 0)
