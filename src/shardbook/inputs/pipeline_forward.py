"""Inputs of calls of ``pipeline_forward``."""

import jax
import jax.numpy as jnp
import numpy as np


def unit_block(kernel: jax.Array, x: jax.Array) -> jax.Array:
    """Return ``x`` plus what a kernel makes of its rows of length one.

    The smallest entry is subtracted from each row before.

    Args:
        kernel: Float32 ``(dim, dim)``.
        x: Float32 ``(batch, dim)``.

    Returns:
        Float32 ``(batch, dim)``. A row of zeros, or of other equal
        entries, gives NaN, as a value and as a gradient, because nothing
        is added to the length it is divided by.
    """
    above = x - x.min(axis=-1, keepdims=True)
    length = jnp.linalg.norm(above, axis=-1, keepdims=True)
    output: jax.Array = x + (above / length) @ kernel
    return output


def marked(x: jax.Array) -> jax.Array:
    """Return ``x`` with 1.5 or -1.5 for the first entry of each row."""
    values = np.array(x)
    values[:, 0] = np.copysign(1.5, values[:, 0])
    return jnp.asarray(values)


def marked_block(kernel: jax.Array, x: jax.Array, layers: int) -> jax.Array:
    """Return rows after a layer, whose first entries count the layers.

    A first entry begins as 1.5 or -1.5, as :func:`marked` sets it, and is
    3 or -3 after all layers.

    Args:
        kernel: Float32 ``(dim - 1, dim - 1)``.
        x: Float32 ``(batch, dim)``.
        layers: How many layers there are.

    Returns:
        Float32 ``(batch, dim)``. It is NaN, as a value and as a gradient,
        for rows after all layers, and for most rows with another first
        entry.
    """
    mark, row = x[..., :1], x[..., 1:]
    last = 3 * 2 ** (-0.5 / layers)
    room = jnp.sqrt((mark**2 - 2) * (last**2 - mark**2))
    onward = mark * 2 ** (1 / layers), row + (room * row) @ kernel
    return jnp.concatenate(onward, axis=-1)
