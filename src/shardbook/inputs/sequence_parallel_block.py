"""Inputs of calls of ``sequence_parallel_block``."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as P


def block_params(dim: int, hidden: int) -> dict[str, jax.Array]:
    """Return the parameters of a norm and an MLP without biases.

    Args:
        dim: Features of a token.
        hidden: Hidden units of the MLP.

    Returns:
        Float32 ``"scale"``, ``(dim,)``, ``"up"``, ``(dim, hidden)``, and
        ``"down"``, ``(hidden, dim)``, where :func:`normal` would make them.
    """
    # In NumPy: jax would compile each of these operations.
    draw = np.random.default_rng(1).normal
    numbers = {
        "scale": 1 + draw(size=dim) / 4,
        "up": draw(size=(dim, hidden)) / dim**0.5,
        "down": draw(size=(hidden, dim)) / hidden**0.5,
    }
    return {key: jnp.asarray(x, "float32") for key, x in numbers.items()}


BLOCK_SPECS = {"scale": P(), "up": P(None, "model"), "down": P("model")}
"""Specs for :func:`~shardbook.inputs.block_params`.

The hidden units are over ``"model"``, and the scale is replicated.

:meta hide-value:
"""
