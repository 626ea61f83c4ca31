"""Inputs of calls of ``pipeline_forward``."""

import jax
import jax.numpy as jnp


def unit_block(kernel: jax.Array, x: jax.Array) -> jax.Array:
    """Return ``x`` plus what a kernel makes of its rows of length one.

    Args:
        kernel: Float32 ``(dim, dim)``.
        x: Float32 ``(batch, dim)``.

    Returns:
        Float32 ``(batch, dim)``. A row of zeros gives NaN, as a value and
        as a gradient, because nothing is added to the length it is divided
        by.
    """
    output: jax.Array = (
        x + (x / jnp.linalg.norm(x, axis=-1)[:, None]) @ kernel
    )
    return output
