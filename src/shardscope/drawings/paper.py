"""Arrays and devices on paper: where a picture has them."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
from jax.sharding import NamedSharding

from shardscope.arrays.shards import Slice, device_id, devices_in
from shardscope.drawings.figure import (
    DARK,
    Box,
    Cell,
    Picture,
    rect,
    scale_box,
    stripes,
    text,
)

# Of more devices, a picture has the colors alone.
NUMBERED = 64


class Paper:
    """An array on paper, and where its slices are.

    The last sharded axis runs across and the others down, so that every
    boundary is seen. With none or one, the axes next to it fill in.
    Lengths are numbers from 0 to 1.

    Args:
        shape: The shape of the array.
        shard_shape: The shape of its slices.
    """

    def __init__(
        self, shape: Sequence[int], shard_shape: Sequence[int]
    ) -> None:
        self.shape = shape
        self.shard_shape = shard_shape
        self.down, self.across = self._rows_and_columns()
        self.width = self._side(self.across)
        self.height = self._side(self.down)

    def _rows_and_columns(self) -> tuple[list[int], list[int]]:
        """Which axes run down and which across the picture."""
        axes = list(range(len(self.shape)))
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
        size = self.shape[axis]
        return size // self.shard_shape[axis] if size else 1

    def _side(self, axes: Sequence[int]) -> float:
        """The length of a side, long enough to write in each block."""
        sizes = [
            math.prod(self.shape[axis] for axis in each)
            for each in (axes, self.down, self.across)
        ]
        blocks = math.prod(self._blocks(axis) for axis in axes)
        true = sizes[0] / max(*sizes, 1)
        return min(max(true, 0.4, blocks / 14), 1)

    def _span(
        self, indices: Slice, axes: Sequence[int]
    ) -> tuple[float, float]:
        place, blocks = 0, 1
        for axis in axes:
            start, _ = indices[axis]
            block = start // max(self.shard_shape[axis], 1)
            place = place * self._blocks(axis) + block
            blocks *= self._blocks(axis)
        return place / blocks, 1 / blocks

    def box(self, indices: Slice) -> Box:
        """Left, top, width and height of a slice."""
        left, width = self._span(indices, self.across)
        top, height = self._span(indices, self.down)
        return (
            left * self.width,
            top * self.height,
            width * self.width,
            height * self.height,
        )


Grid = tuple[list[list[int]], tuple[str, str]]


def grid_of(sharding: Any) -> Grid:
    """The devices' ids as the mesh has them; its axes down and across."""
    columns = 8
    sizes = [""]
    if isinstance(sharding, NamedSharding):
        mesh = sharding.mesh
        ids = list(map(device_id, devices_in(sharding)))
        # An axis of one device is no side of the picture.
        axes = {k: size for k, size in mesh.shape.items() if size > 1}
        sizes = [f"{k}={size}" for k, size in axes.items()] or [""]
        if len(sizes) > 1:
            columns = axes[[*axes][-1]]
    else:
        held = sharding.device_set
        ids = sorted(map(device_id, {*jax.devices(), *held}))
    rows = [
        ids[start : start + columns]
        for start in range(0, len(ids), columns)
    ]
    return rows, (" ".join(sizes[:-1]), sizes[-1])


def devices_picture(
    paper: Paper, grid: Grid, held: Mapping[int, Sequence[Cell]]
) -> Picture:
    """Each device of the mesh, with the part of the array that it holds."""
    rows, (down, across) = grid
    small = len(rows) > 2 or len(rows[0]) > 4
    side, gap = (33, 4) if small else (44, 12)
    numbered = sum(map(len, rows)) <= NUMBERED
    if not numbered:
        side, gap = 8, 2
    left = 8 * len(down) + 10 if down else 2
    top = 24
    pitch: tuple[float, float] = (side + gap, side + gap)
    if numbered:
        pitch = (side + gap, side * paper.height + gap + 16)
    parts = [text(left + len(rows[0]) * pitch[0] / 2 - gap / 2, 15, across)]
    if down:
        middle = top + len(rows) * pitch[1] / 2
        parts.append(text(left / 2 - 4, middle, down))
    for row, devices in enumerate(rows):
        for column, device in enumerate(devices):
            x, y = left + column * pitch[0], top + row * pitch[1]
            indent = side * (1 - paper.width) / 2
            for cell in held.get(device, ()):
                box = scale_box(cell.box, x + indent, y, side)
                if not numbered:
                    box = (x, y, side, side)
                opacity = 0.3 if cell.pale else 1
                parts.append(rect(box, cell.color, cell.color, opacity))
                if numbered and cell.partial:
                    center = (box[0] + box[2] / 2, box[1] + box[3] / 2 + 4)
                    parts.append(stripes(box))
                    parts.append(text(*center, "≠", fill=DARK))
            if numbered:
                whole = (0, 0, paper.width, paper.height)
                parts.append(rect(scale_box(whole, x + indent, y, side)))
                foot = y + side * paper.height + 13
                parts.append(text(x + side / 2, foot, str(device)))
    width = left + len(rows[0]) * pitch[0] - gap + 2
    return Picture(width, top + len(rows) * pitch[1], parts)
