"""The table of a layout, and what looks wrong in it."""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from shardscope import tables
from shardscope.arrays.paths import write_repeated
from shardscope.tables import Column, Table, filled, size

if TYPE_CHECKING:
    from shardscope.arrays.leaf import LeafLayout
    from shardscope.layouts.layout import TreeLayout

# What can be worked out from the other columns goes first.
COLUMNS = (
    Column("path"),
    Column("array"),
    Column("spec"),
    Column("each device", rank=3),
    Column("bytes each", right=True),
    Column("bytes in all", right=True, rank=2),
)
# What is narrower never shows what can be worked out, whatever the arrays,
# so that two tables have the same columns.
WIDE = 100
# A longer table is rolled up, and what is then longer is summed up.
ROWS = 24
FINDINGS = 3
# From here on, bytes are shown in larger units.
EXACT = 2**27


def _cells(leaf: "LeafLayout", exact: bool) -> tuple[str, ...]:
    """Give the cells of an array."""
    path = write_repeated(leaf.path, leaf.repeats)
    if leaf.same_as is not None:
        return path, leaf.type, f"same as {leaf.same_as}", "", "", ""
    return (
        path,
        leaf.type,
        leaf.where,
        "-" if leaf.shard_shape is None else str(leaf.shard_shape),
        size(leaf.bytes_per_device * leaf.repeats, exact),
        size(leaf.bytes, exact),
    )


def _rows(
    layout: "TreeLayout", shown: "TreeLayout", rest: "TreeLayout"
) -> Iterator[tuple[str, ...]]:
    """Give the rows of a table; the last is the sum."""
    exact = layout.bytes < EXACT
    for leaf in shown:
        yield _cells(leaf, exact)
    if rest:
        number = sum(leaf.repeats for leaf in rest)
        most = size(rest.bytes_per_device, exact)
        yield f"{number} smaller", "", "", "", most, size(rest.bytes, exact)
    if host := layout.host_bytes:
        yield "host memory", "", f"{size(host)} in all", "", "", ""
    count = len(layout.bytes_on)
    noun = "device" if count == 1 else "devices"
    uneven = len(set(layout.bytes_on.values())) > 1
    most = "at most " * uneven + size(layout.bytes_per_device, exact)
    yield f"{count} {noun}", "", "", "", most, size(layout.bytes, exact)


def table_of(layout: "TreeLayout") -> Table:
    """Make the table of a layout."""
    shown, rest = layout, type(layout)([])
    if len(shown) > ROWS:
        shown = shown.rolled_up()
    if len(shown) > ROWS:
        # A slice of the layout would count again what the other one has.
        largest = list(shown.by_size())
        shown = type(layout)(largest[: ROWS - 1])
        rest = type(layout)(largest[ROWS - 1 :])
    hidden = [write_repeated(leaf.path, leaf.repeats) for leaf in rest]
    rows = tuple(_rows(layout, shown, rest))
    return Table(COLUMNS, rows, hidden=hidden, total=True)


def findings_of(layout: "TreeLayout") -> list[str]:
    """Write what looks wrong, above the table."""
    found = layout.findings()
    lines = [f"  {each}" for each in found[:FINDINGS]]
    if rest := len(found) - FINDINGS:
        more = f"  and {rest} more: see findings() of the layout"
        lines += [more] if rest > 0 else []
    return ["Looks wrong", *lines] if lines else []


def text_of(layout: "TreeLayout") -> str:
    """Write a layout, no wider than the terminal."""
    table = table_of(layout)
    if tables.terminal_width() < WIDE:
        rows = tuple(row[:3] + row[4:5] for row in table.rows)
        columns = COLUMNS[:3] + COLUMNS[4:5]
        table = replace(table, columns=columns, rows=rows)
    found = filled(findings_of(layout))
    return "\n".join([*found, tables.text_of(table)])
