"""Show a layout as a table, in text and in HTML."""

import html
import sys
import textwrap
from collections.abc import Iterator, Sequence
from shutil import get_terminal_size
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shardbook.tools.layout import TreeLayout
    from shardbook.tools.leaf import LeafLayout

HEADINGS = (
    "path",
    "array",
    "spec",
    "each device",
    "bytes each",
    "bytes in all",
)
# A longer table is rolled up, and what is then longer is summed up.
ROWS = 24
FINDINGS = 3
# From here on, bytes are shown in larger units.
EXACT = 2**27
# The narrowest that a path is cut to.
NARROW = 16


def size(count: int, exact: bool) -> str:
    """Write a number of bytes."""
    if exact or count < 1024:
        return f"{count:,}"
    number = float(count)
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        number /= 1024
        if number < 1024 or unit == "TiB":
            break
    return f"{number:,.1f} {unit}"


def _cells(leaf: "LeafLayout", exact: bool) -> tuple[str, ...]:
    """Give the cells of an array."""
    times = f" ×{leaf.repeats}" if leaf.repeats > 1 else ""
    return (
        leaf.path + times,
        leaf.type,
        leaf.spec,
        "-" if leaf.shard_shape is None else str(leaf.shard_shape),
        size(leaf.bytes_per_device * leaf.repeats, exact),
        size(leaf.bytes, exact)
        if leaf.same_as is None
        else f"same as {leaf.same_as}",
    )


def _rows(layout: "TreeLayout") -> Iterator[tuple[str, ...]]:
    """Give the rows of a table; the last is the sum."""
    exact = layout.bytes < EXACT
    shown, rest = layout, None
    if len(shown) > ROWS:
        shown = shown.rolled_up()
    if len(shown) > ROWS:
        # A slice of the layout would count again what the other one has.
        largest = list(shown.by_size())
        shown = type(layout)(largest[: ROWS - 1])
        rest = type(layout)(largest[ROWS - 1 :])
    for leaf in shown:
        yield _cells(leaf, exact)
    if rest:
        number = sum(leaf.repeats for leaf in rest)
        most = size(rest.bytes_per_device, exact)
        yield f"{number} smaller", "", "", "", most, size(rest.bytes, exact)
    if host := layout.host_bytes:
        yield "host memory", "", "", "", "", size(host, exact)
    count = len(layout.bytes_on)
    noun = "device" if count == 1 else "devices"
    uneven = len(set(layout.bytes_on.values())) > 1
    most = size(layout.bytes_per_device, exact)
    yield (
        f"{count} {noun}",
        "",
        "",
        "",
        f"at most {most}" if uneven else most,
        size(layout.bytes, exact),
    )


def _findings(layout: "TreeLayout") -> list[str]:
    """Write what looks wrong, below the table."""
    found = layout.findings()
    lines = [str(each) for each in found[:FINDINGS]]
    if rest := len(found) - FINDINGS:
        more = f"and {rest} more: see findings() of the layout"
        lines += [more] if rest > 0 else []
    return ["Looks wrong:", *lines] if lines else []


def text_of(layout: "TreeLayout") -> str:
    """Write a table, no wider than the terminal if there is one."""
    rows = [HEADINGS, *_rows(layout)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    shown = list(range(len(HEADINGS)))
    found = _findings(layout)
    if sys.stdout.isatty():
        limit = get_terminal_size().columns
        found = [
            textwrap.fill(line, limit, subsequent_indent="  ")
            for line in found
        ]
        narrow = min(NARROW, widths[0])
        # What can be worked out from the others goes first.
        for column in (3, 5, 1):
            if _total(widths, shown) - widths[0] + narrow > limit:
                shown.remove(column)
        over = max(0, _total(widths, shown) - limit)
        widths[0] = max(narrow, widths[0] - over)
    lines = []
    for row in rows:
        path = row[0]
        if len(path) > widths[0]:
            # The end of a path says more than its start.
            path = f"…{path[1 - widths[0] :]}"
        cells = (path, *row[1:])
        lines.append(
            "  ".join(
                cells[at].ljust(widths[at])
                if at < 4
                else cells[at].rjust(widths[at])
                for at in shown
            ).rstrip()
        )
    return "\n".join([*lines, *found])


def _total(widths: Sequence[int], shown: Sequence[int]) -> int:
    return sum(widths[at] + 2 for at in shown) - 2


def html_of(layout: "TreeLayout") -> str:
    """Write a table for a notebook."""

    def line(cells: Sequence[str], start: str, end: str) -> str:
        row = "".join(f"{start}{html.escape(cell)}{end}" for cell in cells)
        return f"<tr>{row}</tr>"

    head = line(HEADINGS, '<th scope="col">', "</th>")
    *rows, total = [line(row, "<td>", "</td>") for row in _rows(layout)]
    found = "<br>".join(map(html.escape, _findings(layout)))
    return (
        f'<div class="shardbook-table"><table><thead>{head}</thead>'
        f"<tbody>{''.join(rows)}</tbody>"
        f"<tfoot>{total}</tfoot></table>"
        f"{f'<p>{found}</p>' if found else ''}</div>"
    )
