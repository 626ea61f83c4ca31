"""Lay out a batch of NumPy arrays over the data axis of a mesh."""

from typing import Any

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P


def place_batch(batch: Any, mesh: Mesh) -> Any:
    """Return the batch in arrays that are sharded over ``"data"``.

    Each device gets its rows, and no others, from the memory of the host.
    The devices along ``"model"`` get the same rows.

    Args:
        batch: A tree of NumPy arrays, each ``(size, ...)``; the sizes may
            differ. Do not write to them afterwards: jax may use their
            memory, as on CPU, or still be copying it.
        mesh: Mesh with an axis ``"data"``; its other axes replicate.

    Returns:
        A tree of the same structure. Each array has the shape and the
        dtype of NumPy's, but without 64 bits unless ``jax_enable_x64`` is
        set. It is sharded as ``P("data")`` and committed to the mesh.

    Raises:
        ValueError: From jax, if ``"data"`` does not divide the size of an
            array, or an array has no axes.

    Example:
        With 4 devices along ``"data"``, the shards of a batch of
        float32 ``(16, 8)`` are ``(4, 8)``, 128 bytes a device.

    References:
        JAX, *jax.device_put*,
        https://docs.jax.dev/en/latest/_autosummary/jax.device_put.html
    """
    # --- solution ---
    # One sharding, for all arrays of the tree: float32[size@data,...]
    return jax.device_put(batch, NamedSharding(mesh, P("data")))
