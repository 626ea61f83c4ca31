"""Draw which device holds which slice, what moves, and what it takes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import jax
from jax.sharding import Sharding

from shardscope.arrays.leaf import LeafLayout
from shardscope.arrays.shards import (
    Slice,
    describe_holders,
    holders,
    ranges,
    values_of,
)
from shardscope.drawings.collectives import collective_figure
from shardscope.drawings.figure import (
    DARK,
    Cell,
    Drawing,
    Figure,
    Line,
    Picture,
    color_of,
    rect,
    scale_box,
    text,
)
from shardscope.drawings.paper import (
    NUMBERED,
    Paper,
    devices_picture,
    grid_of,
)
from shardscope.drawings.programs import programs_figure
from shardscope.drawings.resharding import resharding_figure
from shardscope.layouts.layout import layout
from shardscope.programs.collective import Collective
from shardscope.programs.report import Program

# How many arrays a drawing has, and how many slices and devices together:
# what is larger would be a heavy page, and no one would look at it.
ARRAYS = 24
SHAPES = 1000


@dataclass(frozen=True)
class _Part:
    """A slice of an array, and the devices that hold it."""

    indices: Slice
    color: str
    devices: tuple[int, ...]


def _named(leaf: LeafLayout) -> str:
    return f"the array at {leaf.path!r}" if leaf.path else "the array"


class _Placed:
    """An array on devices, and its slices."""

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
        self.sharding = leaf.sharding
        self.paper = Paper(leaf.shape, leaf.shard_shape)
        self.parts = [
            _Part(indices, color_of(number), ids)
            for number, (indices, ids) in enumerate(
                holders(leaf.sharding, leaf.shape).items()
            )
        ]

    def sizes(self) -> list[str]:
        """The size of each axis, with the mesh axes it is sharded over."""
        sizes = list(map(str, self.leaf.shape))
        spec = getattr(self.leaf.sharding, "spec", None)
        for axis, entry in enumerate(spec.partitions if spec else ()):
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
            filter(None, [self.leaf.path, times, words, self.leaf.where])
        )


def _array_picture(array: _Placed) -> Picture:
    """The whole array, each slice with the devices that hold it."""
    scale, top = 240, 24
    paper = array.paper
    sizes = array.sizes()

    def label(axes: Sequence[int]) -> str:
        return " × ".join(sizes[axis] for axis in axes)

    rows, columns = label(paper.down), label(paper.across)
    left = 7.5 * len(rows) + 12 if paper.down else 2
    parts = []
    for part in array.parts:
        box = scale_box(paper.box(part.indices), left, top, scale)
        x, y, width, height = box
        words = ranges(part.devices)
        if 7.5 * len(words) > width:
            sign = "×" if values_of(array.sharding) == 1 else "≠"
            words = f"{sign}{len(part.devices)}"
            words *= len(part.devices) > 1
        if len(array.parts) > NUMBERED:
            words = ""
        parts.append(rect(box, part.color))
        if words:
            middle = (x + width / 2, y + height / 2 + 4)
            parts.append(text(*middle, words, fill=DARK))
    width, height = paper.width * scale, paper.height * scale
    parts.append(text(left + width / 2, top - 9, columns))
    parts.append(text(left / 2 - 4, top + height / 2 + 4, rows))
    return Picture(left + width + 2, top + height + 2, parts)


def _layout_figure(array: _Placed) -> Figure:
    leaf = array.leaf
    partial = values_of(array.sharding) > 1
    held = {
        device: Cell(array.paper.box(part.indices), part.color, partial)
        for part in array.parts
        for device in part.devices
    }
    count = len(held)
    where = f"each of {count} devices" if count > 1 else "one device"
    grid = grid_of(array.sharding)
    lines = describe_holders(array.sharding, leaf.shape)
    return Figure(
        title=array.title(),
        lines=[
            Line(line, (part.color,), partial)
            for line, part in zip(lines, array.parts, strict=True)
        ],
        caption=(
            f": {leaf.shard_shape}, {leaf.bytes_per_device:,} bytes on "
            f"{where}"
            f"{'; unreduced (≠): devices of one color differ' * partial}"
        ),
        pictures=(
            _array_picture(array),
            devices_picture(
                array.paper, grid, {k: (cell,) for k, cell in held.items()}
            ),
        ),
        devices=[
            [
                (str(device), held[device].color if device in held else "")
                for device in row
            ]
            for row in grid[0]
        ],
    )


def _draw_layout(tree: Any) -> Drawing:
    leaves = layout(tree)
    shown = leaves if len(leaves) <= ARRAYS else leaves.rolled_up()
    figures: list[Figure] = []
    shapes = 0
    for leaf in shown[:ARRAYS]:
        placed = _Placed(leaf)
        shapes += len(placed.parts) + len(leaf.devices)
        if figures and shapes > SHAPES:
            break
        figures.append(_layout_figure(placed))
    rest = sum(x.repeats for x in shown[len(figures) :])
    noun = "array" if rest == 1 else "arrays"
    return Drawing(
        figures, f"and {rest} more {noun}: draw a part" if rest else ""
    )


def _draw_resharding(before: Any, after: Any) -> Drawing:
    trees = _placed_like(before, after), _placed_like(after, before)
    pairs = list(zip_longest(*map(layout, trees)))
    for one, other in pairs:
        if _shape_of(one) != _shape_of(other):
            raise ValueError(
                "draw(before, after) takes the same arrays in two layouts, "
                f"but got {_shape_of(one)} and {_shape_of(other)}"
            )
    figures = []
    for one, other in pairs[:ARRAYS]:
        old, new = _Placed(one), _Placed(other)
        title = f"{old.title()} to {new.leaf.where}"
        figures.append(
            resharding_figure(one, title, old.sharding, new.sharding)
        )
    rest = len(pairs) - len(figures)
    return Drawing(figures, f"and {rest} more: draw a part" * bool(rest))


def _placed_like(given: Any, other: Any) -> Any:
    """Lay an array out as a sharding says, if it is one."""
    if not isinstance(given, Sharding):
        return given
    if not hasattr(other, "shape"):
        raise TypeError(
            "draw() takes a sharding only together with an array, but got "
            f"{other!r}"
        )
    return jax.ShapeDtypeStruct(other.shape, other.dtype, sharding=given)


def _shape_of(leaf: LeafLayout | None) -> str:
    """Name an array, to compare it with another."""
    if leaf is None:
        return "nothing"
    return f"{leaf.path} {leaf.dtype}{list(leaf.shape)}".strip()


def draw(tree: Any, after: Any = None) -> Drawing:
    """Draw which device holds which slice of an array, or what moves.

    ``draw(x)`` shows each array of a tree.

    On the left is the array with its slices, each with the devices that
    hold it. On the right is the mesh, each device with the slice it holds.
    The same color is the same slice. Devices of one color hold copies,
    unless the array is unreduced: they then hold different values, which
    are still to be added up, and the drawing marks them with ≠.

    ``draw(collective)`` shows one that :func:`program` found: what each
    device of a group holds before and after, and what travels. Terms of a
    sum are striped. Where the program doesn't tell what a device holds,
    words say so in place of the picture. If it is a collective-permute in
    a loop, and a chain of devices passes on what it receives, the drawing
    is a schedule: it shows which device works on what in each turn, if the
    loop is a pipeline that takes in an array at its first device in every
    turn and nowhere else, which the program doesn't tell.

    ``draw(before, after)`` shows what has to move if an array is laid out
    in another way: what each device holds before and after, and how many
    bytes it has to receive because it did not hold them. From where, and
    by which collectives, is the choice of the program that moves them.

    ``draw({"before": one, "after": other})`` compares what :func:`program`
    reports of calls: bars of the memory that each needs on a device, and
    of the bytes that a device sends, with the parts that make them up.

    Args:
        tree: Whatever :func:`layout` takes: an array, a Module, a state.
            An abstract array with a sharding is drawn as it would be
            laid out. Or a :class:`Collective`; or a dict of
            :class:`Program`, by name. Or, if ``after`` is an array, a
            sharding for this array.
        after: The same arrays in another layout, or a sharding for the
            array ``tree``.

    Returns:
        A drawing that a notebook shows. It prints as text, which is also
        what a screen reader says of the picture; in a terminal with
        colors, in color. Of a large tree, arrays that differ in the
        numbers of their path are drawn once, and what is more than a page
        can show is left out; the drawing says so.

    Raises:
        TypeError: If a leaf is neither an array nor a number, or is being
            traced, if both arguments are shardings, or if a program has
            no name or stands beside something else.
        ValueError: If an array or number that would be drawn is on no
            device, or was deleted, or if the arrays before and after have
            different paths, shapes or dtypes, or are unreduced.

    Example:
        >>> import jax
        >>> from jax.sharding import NamedSharding, PartitionSpec as P
        >>> from shardscope import draw, program
        >>> auto = jax.sharding.AxisType.Auto
        >>> mesh = jax.make_mesh((2, 4), ("data", "model"), (auto, auto))
        >>> columns = NamedSharding(mesh, P(None, "model"))
        >>> draw(jax.device_put(jax.numpy.ones((16, 64)), columns))
        float32[16,64@model] P(None, 'model')
          devices 0 4: [0:16, 0:16]
          devices 1 5: [0:16, 16:32]
          devices 2 6: [0:16, 32:48]
          devices 3 7: [0:16, 48:64]
        >>> x = jax.device_put(jax.numpy.ones((8, 4)), columns)
        >>> rows = NamedSharding(mesh, P("model"))
        >>> draw(x, rows)
        float32[8,4@model] P(None, 'model') to P('model')
        devices  holds       then        receives (bytes)
          0 4    [0:8, 0:1]  [0:2, 0:4]                24
          1 5    [0:8, 1:2]  [2:4, 0:4]                24
          2 6    [0:8, 2:3]  [4:6, 0:4]                24
          3 7    [0:8, 3:4]  [6:8, 0:4]                24
        192 bytes received in all
        >>> total = program(lambda x: x.sum(axis=1), x)
        >>> draw(total.communication[0])
        1 all-reduce over model: f32[8]
        before: a partial sum on each
          devices 0-3: a partial sum, different on each
        after: the sum on each
          devices 0-3: the sum
        each device sends 48 bytes, counted as a ring; the same in 1 \
more group
        >>> other = program(lambda x: x.sum(axis=0), x)
        >>> draw({"axis=1": total, "axis=0": other})
        one call on one device
        bytes of memory
          axis=1  64: 32 arguments, 32 results
          axis=0  36: 32 arguments, 4 results
        bytes sent
          axis=1  48: 48 all-reduce over model
          axis=0   0
    """
    given = [*_parts(tree), *_parts(after)]
    if any(isinstance(each, Program) for each in given):
        named = isinstance(tree, Mapping) and after is None
        if not named or {*map(type, given)} != {Program}:
            types = ", ".join(type(each).__name__ for each in given)
            raise TypeError(
                "draw() compares programs in a dict, by their names, but "
                f"got {types}{' in a dict' * named}. Write "
                'draw({"before": one, "after": other})'
            )
        return Drawing([programs_figure(tree)])
    if after is not None:
        return _draw_resharding(tree, after)
    if isinstance(tree, Collective):
        return Drawing([collective_figure(tree)])
    return _draw_layout(tree)


def _parts(given: Any) -> list[Any]:
    """Give what a dict, list or tuple holds, or else what is given."""
    if isinstance(given, Mapping):
        return [*given.values()]
    if isinstance(given, list | tuple):
        return [*given]
    return [given] * (given is not None)
