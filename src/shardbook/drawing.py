"""Draw which device holds which slice of an array."""

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
from jax.sharding import PartitionSpec as P

from shardbook.reporting import LeafLayout, layout

# A colour stands for a slice of the array: devices that hold the same
# slice have the same colour. Dark text is readable on each of them.
COLOURS = (
    "#8ecae6", "#ffc85c", "#a3d398", "#f7a8b8",
    "#bfaeea", "#76d7c4", "#f6a57b", "#d9d671",
)  # fmt: skip

Span = tuple[int, int]
Region = tuple[Span, ...]


@dataclass(frozen=True)
class _Slice:
    """A part of an array, and the devices that hold it."""

    region: Region
    block: tuple[int, ...]
    colour: str
    devices: tuple[int, ...]


def _slices(leaf: LeafLayout) -> list[_Slice]:
    """The distinct slices of an array, in the order of the array."""
    holders: dict[Region, list[int]] = {}
    indices = leaf.sharding.devices_indices_map(leaf.shape)
    for device, index in indices.items():
        region = tuple(
            part.indices(size)[:2]
            for part, size in zip(index, leaf.shape, strict=True)
        )
        holders.setdefault(region, []).append(device.id)
    return [
        _Slice(
            region,
            tuple(start // max(stop - start, 1) for start, stop in region),
            COLOURS[number % len(COLOURS)],
            tuple(sorted(devices)),
        )
        for number, (region, devices) in enumerate(sorted(holders.items()))
    ]


def _ranges(ids: Sequence[int]) -> str:
    """Write ``0 1 2 3 6`` as ``0-3 6``."""
    runs: list[list[int]] = []
    for number in ids:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return " ".join(
        f"{run[0]}-{run[-1]}" if len(run) > 2 else " ".join(map(str, run))
        for run in runs
    )


def _mesh_axes(leaf: LeafLayout) -> tuple[str, ...]:
    """For each axis of the array, the mesh axes that cut it."""
    names = [""] * len(leaf.shape)
    spec = getattr(leaf.sharding, "spec", P())
    for axis, entry in enumerate(spec.partitions):
        if isinstance(entry, tuple):
            entry = f"({','.join(entry)})"
        names[axis] = entry or ""
    return tuple(names)


def _sizes(leaf: LeafLayout) -> list[str]:
    """The size of each axis, with the mesh axes that cut it."""
    return [
        f"{size}@{name}" if name else str(size)
        for size, name in zip(leaf.shape, _mesh_axes(leaf), strict=True)
    ]


def _type(leaf: LeafLayout) -> str:
    """The shape with the axes that cut it, as ``jax.typeof`` prints it."""
    return f"{leaf.dtype}[{','.join(_sizes(leaf))}]"


def _rows_and_columns(leaf: LeafLayout) -> tuple[list[int], list[int]]:
    """Which axes run down and which across the paper.

    The last axis that is cut runs across, so that each cut is seen; with
    none or one of them, the axes next to it fill in.
    """
    axes = list(range(len(leaf.shape)))
    cut = [
        axis for axis in axes if leaf.shard_shape[axis] != leaf.shape[axis]
    ]
    if len(axes) < 2:
        return [], axes
    if len(cut) == 1 and cut[0] != axes[-1]:
        return cut, axes[-1:]
    if len(cut) < 2:
        return axes[-2:-1], axes[-1:]
    return cut[:-1], cut[-1:]


class _Paper:
    """One array on paper: where each of its slices lies, from 0 to 1."""

    def __init__(self, leaf: LeafLayout) -> None:
        self.leaf = leaf
        self.slices = _slices(leaf)
        self.down, self.across = _rows_and_columns(leaf)
        self.width, self.height = (
            self._side(self.across),
            self._side(self.down),
        )

    def _blocks(self, axis: int) -> int:
        """Into how many blocks an axis is cut; one if it is empty."""
        size = self.leaf.shape[axis]
        return size // self.leaf.shard_shape[axis] if size else 1

    def _side(self, axes: Sequence[int]) -> float:
        """The length of a side, long enough to write in each block."""
        sizes = [
            math.prod(self.leaf.shape[axis] for axis in each)
            for each in (axes, self.down, self.across)
        ]
        blocks = math.prod(self._blocks(axis) for axis in axes)
        true = sizes[0] / max(*sizes, 1)
        return min(max(true, 0.4, blocks / 14), 1)

    def _span(
        self, part: _Slice, axes: Sequence[int]
    ) -> tuple[float, float]:
        place, blocks = 0, 1
        for axis in axes:
            place = place * self._blocks(axis) + part.block[axis]
            blocks *= self._blocks(axis)
        return place / blocks, 1 / blocks

    def box(self, part: _Slice) -> tuple[float, float, float, float]:
        """Left, top, width and height of a slice."""
        left, width = self._span(part, self.across)
        top, height = self._span(part, self.down)
        return (
            left * self.width,
            top * self.height,
            width * self.width,
            height * self.height,
        )


def _rect(
    box: Sequence[float], fill: str = "none", stroke: str = "currentColor"
) -> str:
    left, top, width, height = (f"{number:.1f}" for number in box)
    return (
        f'<rect x="{left}" y="{top}" width="{width}" height="{height}" '
        f'fill="{fill}" stroke="{stroke}"/>'
    )


def _text(x: float, y: float, words: str, **attributes: Any) -> str:
    extra = "".join(
        f' {name.replace("_", "-")}="{value}"'
        for name, value in attributes.items()
    )
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="middle"{extra}>'
        f"{html.escape(words)}</text>"
    )


@dataclass(frozen=True)
class _Picture:
    """An SVG image of some size."""

    width: float
    height: float
    parts: Sequence[str]

    def __str__(self) -> str:
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" '
            f'width="{self.width:.0f}" height="{self.height:.0f}" '
            f'viewBox="0 0 {self.width:.0f} {self.height:.0f}" '
            'font-family="ui-monospace, monospace" font-size="12" '
            f'fill="currentColor">{"".join(self.parts)}</svg>'
        )


def _scaled(box: Sequence[float], x: float, y: float, scale: float):
    left, top, width, height = (number * scale for number in box)
    return x + left, y + top, width, height


def _array_picture(paper: _Paper) -> _Picture:
    """The whole array, cut into slices that name their devices."""
    leaf, scale, top = paper.leaf, 240, 24
    sizes = _sizes(leaf)

    def label(axes: Sequence[int]) -> str:
        return " × ".join(sizes[axis] for axis in axes)

    rows, columns = label(paper.down), label(paper.across)
    left = 7.5 * len(rows) + 12 if paper.down else 2
    parts = []
    for part in paper.slices:
        box = _scaled(paper.box(part), left, top, scale)
        x, y, width, height = box
        words = _ranges(part.devices)
        if 7.5 * len(words) > width:
            words = f"×{len(part.devices)}" if len(part.devices) > 1 else ""
        parts.append(_rect(box, part.colour))
        parts.append(
            _text(x + width / 2, y + height / 2 + 4, words, fill="#16181d")
        )
    width, height = paper.width * scale, paper.height * scale
    parts.append(_text(left + width / 2, top - 9, columns))
    parts.append(_text(left / 2 - 4, top + height / 2 + 4, rows))
    return _Picture(left + width + 2, top + height + 2, parts)


def _grid(leaf: LeafLayout) -> tuple[list[list[int]], tuple[str, str]]:
    """The devices' ids as the mesh has them; its axes down and across."""
    mesh = getattr(leaf.sharding, "mesh", None)
    if mesh is None or not mesh.axis_names:
        devices, sizes = {*jax.devices(), *leaf.devices}, [""]
        ids = sorted(device.id for device in devices)
    else:
        ids = [device.id for device in mesh.devices.flat]
        sizes = [f"{name}={mesh.shape[name]}" for name in mesh.axis_names]
    columns = 8 if len(sizes) == 1 else mesh.devices.shape[-1]
    rows = [
        ids[start : start + columns]
        for start in range(0, len(ids), columns)
    ]
    return rows, (" ".join(sizes[:-1]), sizes[-1])


def _devices_picture(paper: _Paper) -> _Picture:
    """Each device of the mesh, with the part of the array that it holds."""
    rows, (down, across) = _grid(paper.leaf)
    side, gap = (36, 6) if len(rows[0]) > 4 else (44, 12)
    held = {
        device: part for part in paper.slices for device in part.devices
    }
    left = 8 * len(down) + 10 if down else 2
    top, pitch = 24, (side + gap, side * paper.height + gap + 16)
    parts = [
        _text(left + len(rows[0]) * pitch[0] / 2 - gap / 2, 15, across)
    ]
    if down:
        middle = top + len(rows) * pitch[1] / 2
        parts.append(_text(left / 2 - 4, middle, down))
    for row, devices in enumerate(rows):
        for column, device in enumerate(devices):
            x, y = left + column * pitch[0], top + row * pitch[1]
            indent = side * (1 - paper.width) / 2
            if device in held:
                part = held[device]
                box = _scaled(paper.box(part), x + indent, y, side)
                parts.append(_rect(box, part.colour, part.colour))
            whole = (0, 0, paper.width, paper.height)
            parts.append(_rect(_scaled(whole, x + indent, y, side)))
            foot = y + side * paper.height + 13
            parts.append(_text(x + side / 2, foot, str(device)))
    width = left + len(rows[0]) * pitch[0] - gap + 2
    return _Picture(width, top + len(rows) * pitch[1], parts)


class Drawing:
    """A picture of who holds what; text where there are no pictures."""

    def __init__(self, leaves: Sequence[LeafLayout]) -> None:
        self._leaves = tuple(leaves)

    def __repr__(self) -> str:
        return "\n".join(_describe(leaf) for leaf in self._leaves)

    def _repr_html_(self) -> str:
        return "".join(_figure(leaf) for leaf in self._leaves)

    def svg(self) -> str:
        """Give the pictures as one SVG file, for light and dark pages."""
        parts, below, widest = [], 0.0, 0.0
        for leaf in self._leaves:
            array, devices = _pictures(leaf)
            beside = array.width + 32
            for picture, x in ((array, 0.0), (devices, beside)):
                height = max(array.height, devices.height)
                y = below + (height - picture.height) / 2
                move = f"translate({x:.0f} {y:.0f})"
                parts.append(f'<g transform="{move}">{picture}</g>')
            below += height + 24
            widest = max(widest, beside + devices.width)
        style = (
            "<style>svg{color:#1f2328}@media(prefers-color-scheme:dark)"
            "{svg{color:#e6edf3}}</style>"
        )
        title = f"<title>{html.escape(repr(self))}</title>"
        return f"{_Picture(widest, below, [title, style, *parts])}\n"


def _title(leaf: LeafLayout) -> str:
    return " ".join(filter(None, [leaf.path, _type(leaf), leaf.spec]))


def _describe(leaf: LeafLayout) -> str:
    lines = [_title(leaf)]
    for part in _slices(leaf):
        where = ", ".join(f"{start}:{stop}" for start, stop in part.region)
        noun = "device" if len(part.devices) == 1 else "devices"
        lines.append(f"  {noun} {_ranges(part.devices)}: [{where}]")
    return "\n".join(lines)


def _pictures(leaf: LeafLayout) -> tuple[_Picture, _Picture]:
    paper = _Paper(leaf)
    return _array_picture(paper), _devices_picture(paper)


def _figure(leaf: LeafLayout) -> str:
    array, devices = _pictures(leaf)
    size = f"{leaf.bytes_per_device:,} bytes"
    count = len(leaf.devices)
    where = f"each of {count} devices" if count > 1 else "one device"
    return (
        f'<figure class="shardbook-drawing">'
        f'<div role="img" aria-label="{html.escape(_describe(leaf))}">'
        f"{array}{devices}</div>"
        f"<figcaption><code>{html.escape(_title(leaf))}</code>: "
        f"{leaf.shard_shape}, {size} on {where}</figcaption></figure>"
    )


def draw(tree: Any) -> Drawing:
    """Draw which device holds which slice of each array in a tree.

    On the left the array, cut into its slices, each with the devices that
    hold it. On the right the mesh, each device with the slice it holds.
    The same colour is the same slice, so a copy is seen as a copy.

    Args:
        tree: Whatever :func:`layout` takes: an array, a Module, a state.
            An abstract array with a sharding is drawn as it would lie.

    Returns:
        A drawing that a notebook shows, with the same in words for those
        who can't see it. It prints as those words.

    Raises:
        TypeError: If a leaf is no array, or is being traced.
        ValueError: If an array is on no device.
    """
    leaves = layout(tree)
    for leaf in leaves:
        if leaf.sharding is None:
            raise ValueError(
                f"the array at {leaf.path!r} is on no device: place it "
                "with jax.device_put, or give an abstract array a sharding"
            )
    return Drawing(leaves)
