"""One index for all entries, and a backward pass that keeps the mask."""

from functools import partial

import jax
import jax.numpy as jnp


def places(x, spec):
    index = jnp.zeros(x.shape, jnp.uint32)
    for axis in range(x.ndim):
        names = spec[axis] if axis < len(spec) else None
        offset, count = 0, 1
        if names:
            offset = jax.lax.axis_index(names) * x.shape[axis]
            count = jax.lax.psum(1, names)
        own = jax.lax.broadcasted_iota(jnp.int32, x.shape, axis) + offset
        index = index * (count * x.shape[axis]) + own.astype(jnp.uint32)
    return index


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def masked(x, mask, rate):
    return jnp.where(mask, x / (1 - rate), jnp.zeros_like(x))


def forward(x, mask, rate):
    return masked(x, mask, rate), mask


def backward(rate, mask, slope):
    return jnp.where(mask, slope / (1 - rate), jnp.zeros_like(slope)), None


masked.defvjp(forward, backward)


def dropout_by_rows(key, x, rate, spec):
    keys = jax.vmap(partial(jax.random.fold_in, key))(
        places(x, spec).ravel()
    )
    mask = jax.vmap(lambda key: jax.random.bernoulli(key, 1 - rate))(keys)
    return masked(x, mask.reshape(x.shape), rate)
