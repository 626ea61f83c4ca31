"""Inputs of calls of ``explicit_mlp``."""

from collections.abc import Sequence
from typing import Any

import jax
from jax.sharding import AxisType, Mesh, PartitionSpec as P

from shardbook.inputs.shared import laid_out, numpy_normal


def explicit(mesh: Mesh) -> Mesh:
    """Return a mesh of the same devices, with Explicit axes."""
    types = (AxisType.Explicit,) * len(mesh.axis_names)
    return Mesh(mesh.devices, mesh.axis_names, axis_types=types)


def mlp_branches(
    dim: int, hidden: Sequence[int], mesh: Mesh
) -> list[dict[str, jax.Array]]:
    """Return the kernels of branches of an MLP, on a mesh.

    Args:
        dim: Inputs and outputs of a branch.
        hidden: The hidden units of each branch.
        mesh: Mesh with an axis ``"model"``, whose size divides each of
            ``hidden``.

    Returns:
        For each branch a float32 ``"up"``, ``(dim, units)``, laid out as
        ``P(None, "model")``, and ``"down"``, ``(units, dim)``, laid out as
        ``P("model", None)``.
    """
    specs = {"up": P(None, "model"), "down": P("model", None)}
    # In NumPy: jax would compile each operation for each shape.
    branches: list[dict[str, Any]] = [
        {
            "up": numpy_normal(dim, units, seed=2 * i + 1) / dim**0.5,
            "down": numpy_normal(units, dim, seed=2 * i + 2) / units**0.5,
        }
        for i, units in enumerate(hidden)
    ]
    return [laid_out(branch, specs, mesh) for branch in branches]
