"""Draw which device holds which slice of an array."""

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
from jax.sharding import NamedSharding

from shardbook.tools.layout import TreeLayout, layout
from shardbook.tools.leaf import LeafLayout
from shardbook.tools.shards import (
    Slice,
    describe_holders,
    device_id,
    devices_in,
    holders,
    partitions,
    ranges,
    values_of,
)

# Devices that hold the same slice of the array have the same color.
# Dark text is readable on each of them.
COLORS = (
    "#8ecae6",
    "#ffc85c",
    "#a3d398",
    "#f7a8b8",
    "#bfaeea",
    "#76d7c4",
    "#f6a57b",
    "#d9d671",
)
# How many arrays a drawing has, and how many slices and devices together:
# what is larger would be a heavy page, and no one would look at it.
ARRAYS = 24
SHAPES = 1000
# Of more devices, a picture has the colors alone.
NUMBERED = 64


def color_of(number: int) -> str:
    """Give each slice a color of its own, light enough for dark text."""
    if number < len(COLORS):
        return COLORS[number]
    # The golden angle: neighbors are far apart.
    hue = number * 137.508 % 360
    return f"hsl({hue:.0f} {55 + number % 3 * 15}% {82 - number % 4 * 5}%)"


@dataclass(frozen=True)
class _Part:
    """A slice of an array, and the devices that hold it."""

    region: Slice
    color: str
    devices: tuple[int, ...]


def _named(leaf: LeafLayout) -> str:
    return f"the array at {leaf.path!r}" if leaf.path else "the array"


class _Placed:
    """An array on devices, its slices, and where a picture has them.

    Lengths in the picture are numbers from 0 to 1.
    """

    def __init__(self, leaf: LeafLayout) -> None:
        if leaf.deleted:
            raise ValueError(
                f"{_named(leaf)} was deleted: it has no layout"
            )
        if leaf.sharding is None or leaf.shard_shape is None:
            raise ValueError(
                f"{_named(leaf)} is on no device: place it "
                "with jax.device_put, or give an abstract array a sharding"
            )
        self.leaf = leaf
        self.shard_shape = leaf.shard_shape
        self.values = values_of(leaf.sharding)
        self.parts = [
            _Part(region, color_of(number), ids)
            for number, (region, ids) in enumerate(
                holders(leaf.sharding, leaf.shape).items()
            )
        ]
        self.words = describe_holders(leaf.sharding, leaf.shape)
        self.down, self.across = self._rows_and_columns()
        self.width = self._side(self.across)
        self.height = self._side(self.down)

    def sizes(self) -> list[str]:
        """The size of each axis, with the mesh axes it is sharded over."""
        sizes = list(map(str, self.leaf.shape))
        spec = getattr(self.leaf.sharding, "spec", None)
        for axis, entry in enumerate(partitions(spec) if spec else ()):
            if isinstance(entry, tuple):
                entry = f"({','.join(entry)})"
            if isinstance(entry, str):
                sizes[axis] += f"@{entry}"
        return sizes

    def title(self) -> str:
        """Path, dtype, shape and mesh axes, and spec.

        The type is as :func:`jax.typeof` prints it on Explicit axes.
        """
        words = f"{self.leaf.dtype}[{','.join(self.sizes())}]"
        times = f"×{self.leaf.repeats}" if self.leaf.repeats > 1 else ""
        return " ".join(
            filter(None, [self.leaf.path, times, words, self.leaf.spec])
        )

    def describe(self) -> str:
        """What each device holds, in words."""
        return "\n".join([self.title(), *self.words])

    def _rows_and_columns(self) -> tuple[list[int], list[int]]:
        """Which axes run down and which across the picture.

        The last sharded axis runs across and the others down, so that
        every boundary is seen. With none or one, the axes next to it fill
        in.
        """
        axes = list(range(len(self.leaf.shape)))
        sharded = [axis for axis in axes if self._blocks(axis) > 1]
        if len(axes) < 2:
            return [], axes
        if len(sharded) == 1 and sharded[0] != axes[-1]:
            return sharded, axes[-1:]
        if len(sharded) < 2:
            return axes[-2:-1], axes[-1:]
        return sharded[:-1], sharded[-1:]

    def _blocks(self, axis: int) -> int:
        """The number of blocks along an axis; one if it is empty."""
        size = self.leaf.shape[axis]
        return size // self.shard_shape[axis] if size else 1

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
        self, part: _Part, axes: Sequence[int]
    ) -> tuple[float, float]:
        place, blocks = 0, 1
        for axis in axes:
            start, _ = part.region[axis]
            block = start // max(self.shard_shape[axis], 1)
            place = place * self._blocks(axis) + block
            blocks *= self._blocks(axis)
        return place / blocks, 1 / blocks

    def box(self, part: _Part) -> tuple[float, float, float, float]:
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


def _scaled(
    box: Sequence[float], x: float, y: float, scale: float
) -> tuple[float, float, float, float]:
    """Give a box in pixels, moved to the right and down."""
    left, top, width, height = (number * scale for number in box)
    return x + left, y + top, width, height


def _array_picture(array: _Placed) -> _Picture:
    """The whole array, each slice with the devices that hold it."""
    scale, top = 240, 24
    sizes = array.sizes()

    def label(axes: Sequence[int]) -> str:
        return " × ".join(sizes[axis] for axis in axes)

    rows, columns = label(array.down), label(array.across)
    left = 7.5 * len(rows) + 12 if array.down else 2
    parts = []
    for part in array.parts:
        box = _scaled(array.box(part), left, top, scale)
        x, y, width, height = box
        words = ranges(part.devices)
        if 7.5 * len(words) > width:
            sign = "×" if array.values == 1 else "≠"
            words = f"{sign}{len(part.devices)}"
            words *= len(part.devices) > 1
        if len(array.parts) > NUMBERED:
            words = ""
        parts.append(_rect(box, part.color))
        if words:
            middle = (x + width / 2, y + height / 2 + 4)
            parts.append(_text(*middle, words, fill="#16181d"))
    width, height = array.width * scale, array.height * scale
    parts.append(_text(left + width / 2, top - 9, columns))
    parts.append(_text(left / 2 - 4, top + height / 2 + 4, rows))
    return _Picture(left + width + 2, top + height + 2, parts)


def _grid(leaf: LeafLayout) -> tuple[list[list[int]], tuple[str, str]]:
    """The devices' ids as the mesh has them; its axes down and across."""
    columns = 8
    sizes = [""]
    if isinstance(leaf.sharding, NamedSharding):
        mesh = leaf.sharding.mesh
        ids = list(map(device_id, devices_in(leaf.sharding)))
        sizes = [f"{k}={size}" for k, size in mesh.shape.items()] or [""]
        if len(sizes) > 1:
            columns = mesh.axis_sizes[-1]
    else:
        ids = sorted(map(device_id, {*jax.devices(), *leaf.devices}))
    rows = [
        ids[start : start + columns]
        for start in range(0, len(ids), columns)
    ]
    return rows, (" ".join(sizes[:-1]), sizes[-1])


def _devices_picture(array: _Placed) -> _Picture:
    """Each device of the mesh, with the part of the array that it holds."""
    rows, (down, across) = _grid(array.leaf)
    side, gap = (36, 6) if len(rows[0]) > 4 else (44, 12)
    held = {device: part for part in array.parts for device in part.devices}
    numbered = sum(map(len, rows)) <= NUMBERED
    if not numbered:
        side, gap = 8, 2
    left = 8 * len(down) + 10 if down else 2
    top = 24
    pitch: tuple[float, float] = (side + gap, side + gap)
    if numbered:
        pitch = (side + gap, side * array.height + gap + 16)
    parts = [
        _text(left + len(rows[0]) * pitch[0] / 2 - gap / 2, 15, across)
    ]
    if down:
        middle = top + len(rows) * pitch[1] / 2
        parts.append(_text(left / 2 - 4, middle, down))
    for row, devices in enumerate(rows):
        for column, device in enumerate(devices):
            x, y = left + column * pitch[0], top + row * pitch[1]
            indent = side * (1 - array.width) / 2
            if device in held:
                part = held[device]
                box = _scaled(array.box(part), x + indent, y, side)
                if not numbered:
                    box = (x, y, side, side)
                parts.append(_rect(box, part.color, part.color))
                if numbered and array.values > 1:
                    center = (box[0] + box[2] / 2, box[1] + box[3] / 2 + 4)
                    parts.append(_text(*center, "≠", fill="#16181d"))
            if numbered:
                whole = (0, 0, array.width, array.height)
                parts.append(_rect(_scaled(whole, x + indent, y, side)))
                foot = y + side * array.height + 13
                parts.append(_text(x + side / 2, foot, str(device)))
    width = left + len(rows[0]) * pitch[0] - gap + 2
    return _Picture(width, top + len(rows) * pitch[1], parts)


class Drawing:
    """Which device holds which slice: a picture in a notebook, or text."""

    def __init__(self, leaves: TreeLayout) -> None:
        shown = leaves if len(leaves) <= ARRAYS else leaves.rolled_up()
        self._arrays: list[_Placed] = []
        shapes = 0
        for leaf in shown[:ARRAYS]:
            placed = _Placed(leaf)
            shapes += len(placed.parts) + len(leaf.devices)
            if self._arrays and shapes > SHAPES:
                break
            self._arrays.append(placed)
        rest = sum(x.repeats for x in shown[len(self._arrays) :])
        noun = "array" if rest == 1 else "arrays"
        self._rest = f"and {rest} more {noun}: draw a part" if rest else ""

    def __repr__(self) -> str:
        lines = [array.describe() for array in self._arrays]
        lines = lines or ["no arrays"]
        return "\n".join([*lines, *filter(None, [self._rest])])

    def _repr_html_(self) -> str:
        rest = f"<p>{self._rest}</p>" if self._rest else ""
        return "".join([*map(_figure, self._arrays), rest])

    def svg(self) -> str:
        """Give the pictures as one SVG file, for light and dark pages."""
        parts, below, widest = [], 0.0, 0.0
        for placed in self._arrays:
            array, devices = (
                _array_picture(placed),
                _devices_picture(placed),
            )
            beside = array.width + 32
            words = html.escape(placed.title())
            parts.append(f'<text x="2" y="{below + 14:.0f}">{words}</text>')
            widest = max(widest, 7.5 * len(placed.title()))
            below += 20
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


def _figure(array: _Placed) -> str:
    leaf = array.leaf
    count = len(leaf.devices)
    where = f"each of {count} devices" if count > 1 else "one device"
    unreduced = ""
    if array.values > 1:
        unreduced = "; unreduced (≠): devices of one color differ"
    return (
        f'<figure class="shardbook-drawing">'
        f'<div role="img" aria-label="{html.escape(array.describe())}">'
        f"{_array_picture(array)}{_devices_picture(array)}</div>"
        f"<figcaption><code>{html.escape(array.title())}</code>: "
        f"{leaf.shard_shape}, {leaf.bytes_per_device:,} bytes on {where}"
        f"{'; the numbers are devices' if count > 1 else ''}"
        f"{unreduced}"
        "</figcaption></figure>"
    )


def draw(tree: Any) -> Drawing:
    """Draw which device holds which slice of each array in a tree.

    On the left is the array with its slices, each with the devices that
    hold it. On the right is the mesh, each device with the slice it holds.
    The same color is the same slice. Devices of one color hold copies,
    unless the array is unreduced: they then hold different values, which
    are still to be added up, and the drawing marks them with ≠.

    Args:
        tree: Whatever :func:`layout` takes: an array, a Module, a state.
            An abstract array with a sharding is drawn as it would be
            laid out.

    Returns:
        A drawing that a notebook shows. It prints as text, which is also
        what a screen reader says of the picture. Of a large tree, arrays
        that differ in the numbers of their path are drawn once, and what
        is more than a page can show is left out; the drawing says so.

    Raises:
        TypeError: If a leaf is neither an array nor a number, or is being
            traced.
        ValueError: If an array or number that would be drawn is on no
            device, or was deleted.

    Example:
        >>> import jax
        >>> from jax.sharding import NamedSharding, PartitionSpec as P
        >>> from shardbook import draw
        >>> auto = jax.sharding.AxisType.Auto
        >>> mesh = jax.make_mesh((2, 4), ("data", "model"), (auto, auto))
        >>> columns = NamedSharding(mesh, P(None, "model"))
        >>> draw(jax.device_put(jax.numpy.ones((16, 64)), columns))
        float32[16,64@model] P(None, 'model')
          devices 0 4: [0:16, 0:16]
          devices 1 5: [0:16, 16:32]
          devices 2 6: [0:16, 32:48]
          devices 3 7: [0:16, 48:64]
    """
    return Drawing(layout(tree))
