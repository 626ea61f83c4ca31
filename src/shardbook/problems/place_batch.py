"""Shard a batch of NumPy arrays over the data axis of a mesh."""

from typing import Any

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P


def place_batch(batch: Any, mesh: Mesh) -> Any:
    """Return the batch as JAX arrays, sharded over ``"data"``.

    Each device gets its own rows straight from the host's memory, and
    devices along ``"model"`` get the same rows.

    Args:
        batch: Tree of NumPy arrays, each ``(size, ...)``; the sizes may
            differ. Don't write to the arrays afterwards, because JAX may
            still be copying them, or on CPU even use their memory.
        mesh: Mesh with an axis ``"data"``; its other axes replicate.

    Returns:
        A tree of the same structure, with arrays of the same shapes and
        dtypes, except that 64 bits are cut to 32 unless
        ``jax_enable_x64`` is set. Each array is sharded as ``P("data")``
        and committed to the mesh.

    Raises:
        ValueError: From JAX, if ``"data"`` does not divide the size of an
            array, or if an array is a scalar.

    Example:
        With 4 devices along ``"data"``, a float32 batch ``(16, 8)`` has
        shards of ``(4, 8)``, 128 bytes on each device.

    References:
        JAX, *jax.device_put*,
        https://docs.jax.dev/en/latest/_autosummary/jax.device_put.html
    """
    # --- solution ---
    # One sharding, for all arrays of the tree: float32[size@data,...]
    return jax.device_put(batch, NamedSharding(mesh, P("data")))
