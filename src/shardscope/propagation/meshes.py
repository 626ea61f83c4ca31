"""The meshes that a lowered program names."""

import re
from collections.abc import Iterable
from typing import Any


def meshes_in(module: Any) -> list[dict[str, int]]:
    """Give the sizes of the axes of each mesh, in the program's order."""
    return [
        {axis: int(n) for axis, n in re.findall(r'"([^"]+)"=(\d+)', str(x))}
        for x in module.body.operations
        if x.operation.name == "sdy.mesh"
    ]


def sizes_of(meshes: Iterable[dict[str, int]]) -> dict[str, int]:
    """Give the size of each axis, in the first mesh that has the axis."""
    sizes: dict[str, int] = {}
    for mesh in meshes:
        for axis, size in mesh.items():
            sizes.setdefault(axis, size)
    return sizes
