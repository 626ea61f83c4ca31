"""A hash of the place of each entry, in integers, without jax.random."""

import jax
import jax.numpy as jnp


def mixed(bits):
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B), (16, 1)):
        bits = (bits ^ (bits >> shift)) * jnp.uint32(factor)
    return bits


def dropout_by_rows(key, x, rate, spec):
    bits = jax.random.bits(key, (), jnp.uint32)
    for axis, size in enumerate(x.shape):
        names = spec[axis] if axis < len(spec) else None
        first = 0
        if names is not None:
            first = (size * jax.lax.axis_index(names)).astype(jnp.uint32)
        at = first + jax.lax.iota(jnp.uint32, size)
        shape = [size if i == axis else 1 for i in range(x.ndim)]
        bits = mixed(bits + at.reshape(shape) * jnp.uint32(0x9E3779B9))
    keep = bits >= jnp.uint32(rate * 2**32)
    return x * keep.astype(x.dtype) * jnp.asarray(1 / (1 - rate), x.dtype)
