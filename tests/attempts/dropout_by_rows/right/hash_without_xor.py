"""A hash of its own without xor, which only drawing its seeds takes."""

import jax
import jax.numpy as jnp


def exclusive(a, b):
    return a + b - (a & b) * jnp.uint32(2)


def mix(h):
    h = exclusive(h, h >> 16) * jnp.uint32(0x7FEB352D)
    h = exclusive(h, h >> 15) * jnp.uint32(0x846CA68B)
    return exclusive(h, h >> 16)


def dropout_by_rows(key, x, rate, spec):
    seeds = jax.random.bits(key, (3,), jnp.uint32)
    h = seeds[0]
    for axis, size in enumerate(x.shape):
        names = spec[axis] if axis < len(spec) else None
        first = jax.lax.axis_index(names) * size if names else 0
        index = jax.lax.broadcasted_iota(jnp.int32, x.shape, axis) + first
        h = mix(h + mix(index.astype(jnp.uint32) + seeds[1]))
    kept = mix(h + seeds[2]) >= jnp.uint32(int(rate * 2**32))
    return jnp.where(kept, x / (1 - rate), 0)
