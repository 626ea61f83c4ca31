"""Write tables as text and as HTML."""

import html
import re
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from shutil import get_terminal_size
from typing import Any

# Columns are left out before the first one is narrower than this.
NARROW = 16
# Without a terminal, as wide as code on a page.
WIDTH = 76
GAP = "  "
# How many characters of an error are shown. jax says what might fix it at
# the end, and needs 1,344 where three parts of a carry are wrong.
LONGEST = 1600


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        name: Its heading.
        right: Whether its cells are aligned on the right.
        rank: Columns with the highest rank are left out first where a
            table is too wide. A column of rank 0 always stays.
    """

    name: str
    right: bool = False
    rank: int = 0


@dataclass(frozen=True)
class Table:
    """Rows of cells.

    Attributes:
        columns: The columns.
        rows: The cells of each row.
        joints: A pattern for the places where a cell of the first column
            divides into parts, and others for where it divides if parts
            have to be left out of what remains. The default is for paths.
        keeps_start: Whether the first part always stays.
        hidden: First cells of rows that are not shown, as which no cell
            may be read where a part of it is left out.
        total: Whether the last row is the sum of the others.
        indent: What stands before each row of the text, below the heading.
    """

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    joints: tuple[str, ...] = (r"(?=[.\[])",)
    keeps_start: bool = False
    hidden: Sequence[str] = ()
    total: bool = False
    indent: str = ""

    def parts(self, cell: str) -> list[str]:
        """Divide a cell of the first column."""
        return _divided(cell, "|".join(self.joints))

    def shortened(self, cell: str, room: int) -> str:
        """Leave out parts of a cell of the first column until it has room.

        They go from the left, but the first of them last, and none without
        which the cell could be read as another row's. The last one stays.
        """
        shown = cell
        for joint in self.joints:
            shown = self._without_parts(shown, cell, joint, room)
        return shown

    def _without_parts(
        self, shown: str, cell: str, joint: str, room: int
    ) -> str:
        """Leave out parts of what is shown of a cell."""
        *front, last = parts = _divided(shown, joint)
        others = {
            other
            for other in (*(row[0] for row in self.rows), *self.hidden)
            if other.endswith(last) and other != cell
        }
        first = [] if self.keeps_start else [0]
        for at in [*range(1, len(front)), *first][: len(front)]:
            if len(shown := _joined(parts)) <= room:
                return shown
            rest = [*parts[:at], "", *parts[at + 1 :]]
            reading = re.escape(_joined(rest)).replace("…", ".+")
            if not any(re.fullmatch(reading, other) for other in others):
                parts = rest
        return _joined(parts)

    @cached_property
    def shortest(self) -> dict[str, str]:
        """Give the first cells, each as short as it can be."""
        cells = (self.columns[0].name, *(row[0] for row in self.rows))
        return {cell: self.shortened(cell, 0) for cell in cells}

    def lines(self, limit: int) -> list[tuple[str, str, str]]:
        """Give what stands before the first cell of a line, it, and after.

        Columns are left out until the lines can be as narrow as a limit.
        """
        lines = [tuple(each.name for each in self.columns), *self.rows]
        widths = [
            max(map(len, cells)) for cells in zip(*lines, strict=True)
        ]
        shown = [*enumerate(self.columns)][1:]
        ranked = sorted(shown, key=lambda each: each[1].rank)
        while True:
            rows = []
            for number, cells in enumerate(lines):
                after = ""
                for at, column in shown:
                    pad = str.rjust if column.right else str.ljust
                    after += GAP + pad(cells[at], widths[at])
                # Blanks before a number are room for the first cell.
                after = GAP + after.lstrip()
                rows.append((self.indent * bool(number), cells[0], after))
            least = max(
                max(len(self.shortest[cell]), min(NARROW, len(cell)))
                + len(start + after)
                for start, cell, after in rows
            )
            if least <= limit or not ranked or not ranked[-1][1].rank:
                return rows
            shown.remove(ranked.pop())


def _divided(cell: str, joint: str) -> list[str]:
    """Divide a cell."""
    return [part for part in re.split(joint, cell) if part] or [""]


def _joined(parts: Sequence[str]) -> str:
    """Write parts, with a sign in place of those that are empty."""
    return re.sub("\0+", "…", "".join(part or "\0" for part in parts))


def rows_shown(count: int, limit: int) -> int:
    """Tell how many of so many rows are shown, and not summed up.

    One row more than the limit needs no more room than its sum.
    """
    return count if count <= limit + 1 else limit


def numbers_table(
    title: str,
    unit: str,
    rows: Sequence[tuple[str, int, int]],
    limit: int,
    totals: Iterable[tuple[str, str]] = (),
    **how: Any,
) -> Table:
    """Make a table of numbers.

    Args:
        title: The head of the names.
        unit: The head of the numbers.
        rows: Each with its name, its number, and how many things it is of.
        limit: How many rows are shown before the others are summed up.
        totals: What comes below them.
        **how: How names are shortened, as attributes of the table.
    """
    shown = rows_shown(len(rows), limit)
    cells = [(name, f"{number:,}") for name, number, _ in rows[:shown]]
    if rest := rows[shown:]:
        _, numbers, counts = zip(*rest, strict=True)
        cells.append((f"{sum(counts)} others", f"{sum(numbers):,}"))
    columns = (Column(title), Column(unit, right=True))
    return Table(columns, (*cells, *totals), indent="  ", **how)


def shortened(text: str, most: int = LONGEST) -> str:
    """Leave out the middle of a long text, and say how much that is."""
    if len(text) <= most:
        return text
    half = most // 2
    count = f"{len(text) - 2 * half:,} characters"
    return f"{text[:half]} ... ({count} left out) ... {text[-half:]}"


def size(count: int, exact: bool | None = None) -> str:
    """Write a number of bytes; exactly if asked, as in a column of them."""
    if exact or count < 1024:
        return f"{count:,}" + " bytes" * (exact is None)
    number = float(count)
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        number /= 1024
        if number < 1024 or unit == "TiB":
            break
    return f"{number:,.1f} {unit}"


def terminal_width() -> int:
    """Give the columns of the terminal."""
    return get_terminal_size((WIDTH, 0)).columns


def filled(lines: Iterable[str]) -> list[str]:
    """Break lines of words where the terminal ends, and no word."""
    wrapper = textwrap.TextWrapper(
        terminal_width(),
        subsequent_indent="    ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [*map(wrapper.fill, lines)]


def text_of(*tables: Table) -> str:
    """Write tables below each other, as wide as the widest needs.

    They are no wider than the terminal, unless two rows would then look
    the same.
    """
    limit = terminal_width()
    lines = [
        (table, *row) for table in tables for row in table.lines(limit)
    ]
    needed = max(len("".join(row)) for _, *row in lines)
    least = max(
        len(start + table.shortest[cell] + after)
        for table, start, cell, after in lines
    )
    width = max(min(needed, limit), least)
    text = []
    for table, start, cell, after in lines:
        room = width - len(start + after)
        shown = cell if len(cell) <= room else table.shortened(cell, room)
        text.append(f"{start}{shown.ljust(room)}{after}".rstrip())
    return "\n".join(text)


def html_of(
    *tables: Table,
    above: Sequence[str] = (),
    notes: Sequence[str] = (),
    kind: str = "",
) -> str:
    """Write tables as one for a notebook, what is above, and notes below.

    A table that stands alone has a head, and each of several is a group
    of rows with a heading.
    """

    def line(cells: Sequence[str], start: str, end: str) -> str:
        row = "".join(f"{start}{cell}{end}" for cell in cells)
        return f"<tr>{row}</tr>"

    groups = ""
    for table in tables:
        names = [column.name for column in table.columns]
        rows = [
            line(
                [
                    # Where a narrow page may divide it.
                    "<wbr>".join(map(html.escape, table.parts(first))),
                    *map(html.escape, others),
                ],
                "<td>",
                "</td>",
            )
            for first, *others in table.rows
        ]
        total = f"<tfoot>{rows.pop()}</tfoot>" if table.total else ""
        lone = len(tables) == 1
        scope = "col" if lone else "rowgroup"
        head = line(names, f'<th scope="{scope}">', "</th>")
        groups += (
            f"<thead>{head}</thead><tbody>" if lone else f"<tbody>{head}"
        )
        groups += f"{''.join(rows)}</tbody>{total}"
    head, below = (
        f"<p>{'<br>'.join(map(html.escape, lines))}</p>" if lines else ""
        for lines in (above, notes)
    )
    return (
        f'<div class="shardscope-table{kind}">{head}'
        f"<table>{groups}</table>{below}</div>"
    )
