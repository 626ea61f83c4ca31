"""Inputs of calls of ``feed_batch``."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P


def numpy_rows(
    size: int, *shape: int, dtype: str = "float32"
) -> np.ndarray:
    """Return rows in NumPy, the same in all processes.

    Args:
        size: How many rows.
        *shape: The shape of a row.
        dtype: Their dtype.

    Returns:
        An array ``(size, *shape)`` of numbers from -100 to 100.
    """
    random = np.random.default_rng(0)
    rows = random.uniform(-100, 100, (size, *shape))
    return rows.astype(jnp.dtype(dtype))


def rows_of_process(rows: np.ndarray, mesh: Mesh) -> np.ndarray:
    """Return the rows of a global batch that this process reads.

    Args:
        rows: The global batch, ``(size, ...)``.
        mesh: The mesh of all processes.

    Returns:
        The rows of this process's devices along ``"data"``.
    """
    here = NamedSharding(mesh, P("data")).addressable_devices_indices_map(
        rows.shape
    )
    parts = [part[0].indices(len(rows)) for part in here.values() if part]
    starts, stops, _ = zip(*parts, strict=True)
    return rows[min(starts) : max(stops)]


def except_last(usual: Any, last: Any) -> Any:
    """Return the first in all processes but the last, and there the other.

    Args:
        usual: What the first processes get.
        last: What the last process gets, if there are several.
    """
    index, count = jax.process_index(), jax.process_count()
    return last if 0 < index == count - 1 else usual
