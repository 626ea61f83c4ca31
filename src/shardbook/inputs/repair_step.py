"""Inputs of calls of ``repair_step``."""

from typing import Any

import numpy as np


def counting(rows: int, length: int, words: int, seed: int) -> Any:
    """Return rows of tokens that count up by 1, 2 or 3.

    Args:
        rows: The number of rows.
        length: The tokens in a row.
        words: The number of different tokens, where counting begins again.
        seed: The seed of where a row begins, and by how much it counts.

    Returns:
        int32 ``(rows, length)``, of NumPy.
    """
    rng = np.random.default_rng(seed)
    first = rng.integers(words, size=(rows, 1))
    more = rng.integers(1, 4, size=(rows, 1)) * np.arange(length)
    return ((first + more) % words).astype(np.int32)
