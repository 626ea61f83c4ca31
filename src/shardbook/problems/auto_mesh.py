"""Make a mesh whose axes leave the sharding of results to the compiler."""

import jax
from jax.sharding import AxisType, Mesh


def auto_mesh(data: int, model: int) -> Mesh:
    """Return a ``data`` by ``model`` mesh with Auto axes.

    Args:
        data: Number of devices along the axis ``"data"``, at least 1.
        model: Number of devices along the axis ``"model"``, at least 1.

    Returns:
        A mesh of the first ``data * model`` devices of ``jax.devices()``.
        On CPU they are in that order, row by row. On a TPU,
        ``jax.make_mesh`` may order them by how they are connected.

    Raises:
        ValueError: From JAX, if there aren't enough devices.

    Example:
        ``auto_mesh(2, 4).axis_types`` is
        ``(AxisType.Auto, AxisType.Auto)``.

    References:
        JAX, *jax.make_mesh*,
        https://docs.jax.dev/en/latest/_autosummary/jax.make_mesh.html
    """
    # --- solution ---
    types = (AxisType.Auto, AxisType.Auto)
    return jax.make_mesh((data, model), ("data", "model"), types)
