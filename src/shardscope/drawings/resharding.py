"""Draw what has to move when an array is laid out in another way."""

import math
from collections.abc import Iterator, Sequence

import numpy as np
from jax.sharding import Sharding

from shardscope.arrays.leaf import LeafLayout
from shardscope.arrays.shards import (
    Slice,
    device_id,
    holders,
    ranges,
    slices_of,
    values_of,
)
from shardscope.drawings.figure import (
    Cell,
    Figure,
    Line,
    Picture,
    color_of,
    text,
)
from shardscope.drawings.paper import (
    NUMBERED,
    Paper,
    devices_picture,
    grid_of,
)
from shardscope.tables import Column, Table, text_of

# Rows of a table.
_SHOWN = 32


def _overlap(one: Slice, other: Slice) -> Slice:
    """Give what two slices share; it may be empty."""
    return tuple(
        (max(a, c), max(min(b, d), a, c))
        for (a, b), (c, d) in zip(one, other, strict=True)
    )


def _size(indices: Slice) -> int:
    return math.prod(stop - start for start, stop in indices)


def _inside(indices: Slice, blocks: Sequence[int]) -> Iterator[Slice]:
    """Cut a slice into blocks."""
    starts = [
        start // size
        for (start, _), size in zip(indices, blocks, strict=True)
    ]
    counts = [
        (b - a) // size
        for (a, b), size in zip(indices, blocks, strict=True)
    ]
    for place in np.ndindex(*counts):
        yield tuple(
            ((first + step) * size, (first + step + 1) * size)
            for first, step, size in zip(starts, place, blocks, strict=True)
        )


class _Resharding:
    """The slices of an array before and after."""

    def __init__(
        self, leaf: LeafLayout, before: Sharding, after: Sharding
    ) -> None:
        self.leaf = leaf
        self.shardings = before, after
        self.held, self.wanted = (
            {
                device_id(device): part
                for device, part in slices_of(each, leaf.shape).items()
            }
            for each in self.shardings
        )

    def received(self, device: int) -> int:
        """Count the bytes that a device has to receive."""
        wanted = self.wanted[device]
        size = _size(wanted)
        if held := self.held.get(device):
            size -= _size(_overlap(held, wanted))
        return (
            self.leaf.bytes_per_device
            * size
            // max(_size(next(iter(self.held.values()))), 1)
        )

    def table(self) -> Table:
        """Say of each device what it holds, then holds, and receives."""
        alike: dict[tuple[str, ...], list[int]] = {}
        for device, wanted in sorted(self.wanted.items()):
            cells = (
                _written(self.held.get(device)),
                _written(wanted),
                f"{self.received(device):,}",
            )
            alike.setdefault(cells, []).append(device)
        rows = [(ranges(ids), *cells) for cells, ids in alike.items()]
        if len(rows) > _SHOWN:
            rest = len(rows) - _SHOWN
            rows[_SHOWN:] = [(f"and {rest} more rows", "", "", "")]
        return Table(
            (
                Column("devices"),
                Column("holds"),
                Column("then"),
                Column("receives (bytes)", right=True),
            ),
            tuple(rows),
            joints=("(?<=, )",),
            indent="  ",
        )

    def pictures(self) -> Sequence[Picture]:
        """The devices before and after, what arrives in full color."""
        before, after = self.shardings
        blocks = [
            math.gcd(*sizes)
            for sizes in zip(
                before.shard_shape(self.leaf.shape),
                after.shard_shape(self.leaf.shape),
                strict=True,
            )
        ]
        paper = Paper(self.leaf.shape, blocks)
        colors = {
            block: color_of(number)
            for number, part in enumerate(holders(before, self.leaf.shape))
            for block in _inside(part, blocks)
        }
        had = {k: {*_inside(part, blocks)} for k, part in self.held.items()}
        has = {
            k: {*_inside(part, blocks)} for k, part in self.wanted.items()
        }
        return [
            _under(
                label,
                devices_picture(
                    paper,
                    grid_of(sharding),
                    {
                        device: [
                            Cell(
                                paper.box(block),
                                colors[block],
                                pale=block in known.get(device, ()),
                            )
                            for block in sorted(parts)
                        ]
                        for device, parts in held.items()
                    },
                ),
            )
            for label, sharding, held, known in (
                ("before", before, had, {}),
                ("after: what arrives; pale, what stays", after, has, had),
            )
        ]


def _written(indices: Slice | None) -> str:
    if indices is None:
        return "nothing"
    return f"[{', '.join(f'{start}:{stop}' for start, stop in indices)}]"


def _under(words: str, picture: Picture) -> Picture:
    """Put a picture below a line of words."""
    moved = f'<g transform="translate(0 20)">{"".join(picture.parts)}</g>'
    return Picture(
        max(picture.width, 7.5 * len(words)),
        picture.height + 20,
        [text(2, 12, words, text_anchor="start"), moved],
    )


def resharding_figure(
    leaf: LeafLayout, title: str, before: Sharding, after: Sharding
) -> Figure:
    """Show which parts of an array each device has to receive."""
    if max(map(values_of, (before, after))) > 1:
        raise ValueError(
            f"{title}: what moves is not known of an unreduced array, "
            "whose devices hold terms of a sum: draw each of the two"
        )
    found = _Resharding(leaf, before, after)
    table = found.table()
    total = sum(map(found.received, found.wanted))
    note = f"{total:,} bytes received in all"
    small = max(len(found.held), len(found.wanted)) <= NUMBERED
    lines = [*text_of(table).splitlines(), note]
    return Figure(
        title=title,
        lines=[Line(line) for line in lines],
        caption=f": {note}",
        pictures=found.pictures() if small else (),
        table=table,
    )
