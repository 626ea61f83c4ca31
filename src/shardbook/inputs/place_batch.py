"""Inputs of calls of ``place_batch``."""

from typing import Any

import numpy as np


def numpy_batch(size: int, *shape: int, seed: int = 0) -> dict[str, Any]:
    """Return a batch as a data loader gives it, in the host's memory.

    Args:
        size: The number of examples.
        *shape: The shape of an example.
        seed: The seed of the numbers.

    Returns:
        A dict of NumPy arrays. ``"x"`` is float32 ``(size, *shape)``, and
        ``"y"`` int32 ``(size,)``, with numbers from 0 to 3.
    """
    rng = np.random.default_rng(seed)
    return {
        "x": rng.normal(size=(size, *shape)).astype(np.float32),
        "y": rng.integers(4, size=size, dtype=np.int32),
    }
