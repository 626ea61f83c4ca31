"""Average the weights of a sharded model while it trains."""

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx


def average_weights(
    average: nnx.State[Any, Any] | None, model: nnx.Module, decay: float
) -> nnx.State[Any, Any]:
    """Return the moving average of a model's weights, in float32.

    Each device averages its own shards: a call with an average runs one
    program, which has no collectives, in the memory of the old average.

    Args:
        average: The average so far, which is donated, or None at first.
        model: A model on any devices, which stays as it is. Every
            floating-point ``nnx.Param`` is a weight.
        decay: The weight of the old average, from 0 to 1. No program is
            compiled for another Python float, such as 1.0 after 0.9; ints
            and NumPy numbers have programs of their own.

    Returns:
        For each weight, float32 of the same shape, sharded like the
        weight: at first a copy, later
        ``decay * average + (1 - decay) * weight``. XLA decides how, if a
        weight is no longer sharded like its average. A Variable that the
        model holds twice is averaged once.

    Example:
        ``average = average_weights(average, model, 0.9999)`` after each
        training step.

    References:
        Ho et al., *Denoising Diffusion Probabilistic Models*, 2020,
        appendix B, https://arxiv.org/abs/2006.11239
    """
    # --- solution ---
    weights = nnx.state(model, _is_weight)
    averaged: nnx.State[Any, Any] = _blend(average, weights, decay)
    return averaged


def _is_weight(path: tuple[Any, ...], variable: Any) -> bool:
    """Tell whether a Variable is a floating-point ``nnx.Param``."""
    return isinstance(variable, nnx.Param) and jnp.issubdtype(
        variable.dtype, jnp.floating
    )


@jax.jit(donate_argnums=0)
def _blend(average: Any, weights: Any, decay: Any) -> Any:
    """Copy the weights, or move the average toward them."""
    # The first average must not share memory with the model.
    weights = jax.tree.map(lambda w: jnp.array(w, jnp.float32), weights)
    if average is None:
        return weights
    return jax.tree.map(
        lambda a, w: decay * a + (1 - decay) * w, average, weights
    )
