"""Inputs of calls of ``pipeline_forward``."""

import jax
import jax.numpy as jnp


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
