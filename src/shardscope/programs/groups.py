"""The groups of devices of a collective, and their mesh axes."""

import math
import re
from collections.abc import Mapping, Sequence

import numpy as np

# Groups of devices, by their positions in the order of the mesh.
Groups = Sequence[Sequence[int]]
PAIRS = re.compile(r"source_target_pairs=\{((?:\{[\d,]*\},?)*)\}")


# --- Devices ---


def listed(text: str) -> list[list[int]]:
    """Read groups such as ``{0,1},{2,3}``."""
    return [
        [int(number) for number in re.findall(r"\d+", group)]
        for group in re.findall(r"\{([^{}]*)\}", text)
    ]


def groups_of(attributes: str, devices: int) -> Groups:
    """Read the groups of a collective in each way that XLA writes them.

    Of a permute, these are the pairs of devices.
    """
    if pairs := PAIRS.search(attributes):
        return listed(pairs[1])
    if found := re.search(r"replica_groups=\{(\{.*?\})\}", attributes):
        return listed(found[1])
    if found := re.search(
        r"replica_groups=\[(\d+),(\d+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?",
        attributes,
    ):
        count, size, dims, order = found.groups()
        return _ids(dims, order).reshape(int(count), int(size)).tolist()
    if found := re.search(
        r"replica_groups=mesh\[([^\]]*)\]"
        r"(?:, device_ids=\(\[([\d,]+)\](?:T\(([\d,]+)\))?\))?"
        r" \{([^}]*)\}",
        attributes,
    ):
        mesh, dims, order, over = found.groups()
        groups = _along(mesh, over)
        if dims:
            groups = _ids(dims, order).ravel()[np.array(groups)].tolist()
        return groups
    return [list(range(devices))]


def _ids(dims: str, order: str | None) -> np.ndarray:
    """Number the devices as in ``[2,4]T(1,0)``."""
    shape = tuple(map(int, dims.split(",")))
    ids = np.arange(math.prod(shape)).reshape(shape)
    return ids.transpose([*map(int, order.split(","))]) if order else ids


def _along(mesh: str, over: str) -> list[list[int]]:
    """Read groups such as ``mesh['a'=2,'b'=4] {'b':(2)2}``.

    The names are the compiler's own. ``'b':(2)2`` is the part of the axis
    that has size 2, below a part of size 2.
    """
    found = re.findall(r"'([^']*)'=(\d+)", mesh)
    sizes = {name: int(size) for name, size in found}
    parts = {
        name: (int(before or 1), int(size or sizes[name]))
        for name, before, size in re.findall(
            r"'([^']*)'(?::\((\d+)\)(\d+))?", over
        )
    }
    shape: list[int] = []
    axes: dict[str, int] = {}
    for name, size in sizes.items():
        before, part = parts.get(name, (size, 1))
        axes[name] = len(shape) + 1
        shape += [before, part, size // before // part]
    ids = np.arange(math.prod(shape)).reshape(shape)
    # The devices of a group are in the order in which the axes are named.
    inside = [axes[name] for name in parts]
    outside = [axis for axis in range(len(shape)) if axis not in inside]
    count = math.prod(part for _, part in parts.values())
    return ids.transpose(outside + inside).reshape(-1, count).tolist()


def axes_along(
    groups: Groups, meshes: Sequence[Mapping[str, int]], pairs: bool
) -> tuple[tuple[str, ...], bool, tuple[tuple[str, ...], ...]]:
    """Name the mesh axes along which the devices of a group differ.

    Also tell whether a group is only a part of the devices along them, and
    what they are in other meshes. The names that jax 0.12 writes into a
    program's text don't help: they are those of one mesh, whichever a
    collective is over.
    """
    found = []
    for mesh in meshes:
        sizes = tuple(mesh.values())
        if math.prod(sizes) <= max(map(max, groups)):
            continue
        over: set[int] = set()
        for group in groups:
            places = np.array(np.unravel_index(group, sizes))
            over.update(np.flatnonzero(np.ptp(places, axis=1)).tolist())
        names = tuple(name for at, name in enumerate(mesh) if at in over)
        whole = math.prod(mesh[name] for name in names)
        part = not pairs and any(len(group) != whole for group in groups)
        found.append((part, whole, names))
    if not found:
        return (), False, ()
    part, whole, _ = min(found, key=lambda each: each[:2])
    first, *others = dict.fromkeys(
        names for *key, names in found if key == [part, whole]
    )
    return first, part, tuple(others)
