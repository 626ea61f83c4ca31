"""Inputs of calls of ``optimizer_like_params``."""

from typing import Any

import jax
import jax.numpy as jnp
import optax


def adafactor() -> Any:
    """Return optax's Adafactor.

    For a kernel it keeps two vectors, one for its rows and one for its
    columns, and for a bias an array of its shape.
    """
    return optax.adafactor(1e-2, min_dim_size_to_factor=8)


def from_shapes() -> Any:
    """Return SGD with momentum, written without ``zeros_like``.

    Its moment starts as ``jnp.zeros(p.shape, p.dtype)``.
    """

    def init(params: Any) -> Any:
        return jax.tree.map(lambda p: jnp.zeros(p.shape, p.dtype), params)

    def update(grads: Any, state: Any, params: Any = None) -> Any:
        del params
        state = jax.tree.map(lambda g, s: g + 0.9 * s, grads, state)
        return jax.tree.map(lambda s: -0.1 * s, state), state

    return optax.GradientTransformation(init, update)
