"""Inputs of calls of ``vocab_parallel_loss``."""

import jax
import jax.numpy as jnp
import numpy as np


def labels(tokens: int, words: int, *, left_out: int) -> jax.Array:
    """Return a label for each token, and -1 for the first tokens.

    Args:
        tokens: The number of tokens.
        words: The number of words; the labels are below it.
        left_out: How many tokens have the label -1.

    Returns:
        int32 ``(tokens,)``, where :func:`normal` makes it. Among the last
        labels are the first and the last word.
    """
    found = np.random.default_rng(0).integers(words, size=tokens)
    found[-2:] = 0, words - 1
    found[:left_out] = -1
    return jnp.asarray(found, jnp.int32)
