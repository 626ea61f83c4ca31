"""Write tables as text and as HTML."""

import html
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

# The narrowest that the first column is cut to.
NARROW = 16
GAP = "  "


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
        cut: Shortens a cell of the first column to a number of characters.
        total: Whether the last row is the sum of the others.
        indent: What stands before each row of the text, below the heading.
    """

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    cut: Callable[[str, int], str]
    total: bool = False
    indent: str = ""

    def lines(
        self, limit: int | None = None, *, fill: bool = False
    ) -> Iterator[str]:
        """Write the table as lines of text.

        Args:
            limit: The most characters of a line, where that is possible:
                columns are left out, and the first column is cut.
            fill: Whether the lines are as wide as the limit.
        """
        first, *others = self.columns
        rows = [[column.name for column in self.columns]]
        rows += [[self.indent + row[0], *row[1:]] for row in self.rows]
        widths = {
            column: max(map(len, cells))
            for column, cells in zip(
                self.columns, zip(*rows, strict=True), strict=True
            )
        }

        def needed(width: int) -> int:
            return width + sum(len(GAP) + widths[each] for each in others)

        width = needed(widths[first])
        if limit is not None:
            narrow = min(NARROW, widths[first])
            for column in sorted(others, key=lambda each: -each.rank):
                if column.rank and needed(narrow) > limit:
                    others.remove(column)
            least = max(limit, needed(narrow))
            width = limit if fill else min(needed(widths[first]), least)
        for row in rows:
            cells = dict(zip(self.columns, row, strict=True))
            after = ""
            for each in others:
                pad = str.rjust if each.right else str.ljust
                after += GAP + pad(cells[each], widths[each])
            # Blanks before a number are room for the first cell.
            after = after.lstrip()
            room = width - len(GAP) - len(after)
            cell = cells[first]
            if len(cell) > room:
                cell = self.cut(cell, room)
            yield f"{cell.ljust(room)}{GAP}{after}".rstrip()


def html_of(
    *tables: Table, notes: Sequence[str] = (), kind: str = ""
) -> str:
    """Write tables as one for a notebook, and notes below.

    A table that stands alone has a head, and each of several is a group
    of rows with a heading.
    """

    def line(cells: Sequence[str], start: str, end: str) -> str:
        row = "".join(f"{start}{html.escape(cell)}{end}" for cell in cells)
        return f"<tr>{row}</tr>"

    groups = ""
    for table in tables:
        names = [column.name for column in table.columns]
        rows = [line(cells, "<td>", "</td>") for cells in table.rows]
        total = f"<tfoot>{rows.pop()}</tfoot>" if table.total else ""
        lone = len(tables) == 1
        scope = "col" if lone else "rowgroup"
        head = line(names, f'<th scope="{scope}">', "</th>")
        groups += (
            f"<thead>{head}</thead><tbody>" if lone else f"<tbody>{head}"
        )
        groups += f"{''.join(rows)}</tbody>{total}"
    below = "<br>".join(map(html.escape, notes))
    return (
        f'<div class="shardbook-table{kind}"><table>{groups}</table>'
        f"{f'<p>{below}</p>' if below else ''}</div>"
    )


def keep_end(text: str, width: int) -> str:
    """Cut the start of a text."""
    return f"…{text[1 - width :]}"


def keep_both_ends(text: str, width: int) -> str:
    """Cut the middle of a text."""
    half = (width - 3) // 2
    return f"{text[: width - 3 - half]}...{text[-half:]}"
