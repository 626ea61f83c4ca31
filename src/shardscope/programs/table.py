"""The tables of a report on a program."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from operator import itemgetter
from typing import TYPE_CHECKING

from shardscope.arrays.paths import roll_up, write_repeated
from shardscope.lines import short
from shardscope.programs.memory import lacks_fusions
from shardscope.programs.rows import rows_of
from shardscope.tables import Table, numbers_table, rows_shown

if TYPE_CHECKING:
    from shardscope.programs.report import Program

# A longer table is rolled up, then summed up but for the largest.
_SHOWN = 8
_COLLECTIVES = 24
# Smaller constants are tables that XLA makes, and masks.
_LARGE = 2**16
# How many constants have a row, alike ones together.
_NAMED = 3
_LEGEND = {
    "except inside fusions": "XLA for CPUs leaves out what fused products "
    "use inside",
    "unknown line": "the compiler noted none",
    "over part of": "among some of the devices along the axis",
    "at most": "data decides how much",
    "asked for": "by your code; the compiler inserted the others",
}
_UNKNOWN = "unknown: program() needs a function, and what it takes"
# Before the names in a path, of which the last two stay.
_IN_PATHS = r"(?=\.[^\s.,]+\..* over )"
# A name, its number, and how many arrays or lines it stands for.
_Row = tuple[str, int, int]


def tables_of(program: "Program") -> list[Table]:
    """Make the tables of a report."""
    memory = program.memory
    sizes = {
        "arguments": memory.arguments,
        "results": memory.results,
        "temporaries": memory.temporaries,
        "donated": -memory.donated,
    }
    if memory.constants:
        sizes["constants, whole on each device"] = memory.constants
    lacking = ", except inside fusions" * lacks_fusions(program.text)
    sizes[f"total{lacking}"] = memory.total
    if program.available is not None:
        left = program.available - memory.total
        sizes[f"left of {program.available:,} of {program.chip}"] = left
    if memory.host:
        sizes["on the host, not in the total"] = memory.host
    unit = "bytes on one device"
    parts = [(name, number, 1) for name, number in sizes.items()]
    tables = [
        numbers_table("memory", unit, parts, len(parts), keeps_start=True)
    ]
    if memory.constants >= _LARGE:
        title = "constants, such as captured arrays"
        tables.append(_largest(title, unit, _constants(program), _NAMED))
    rows = _rolled_up(program.argument_bytes)
    tables.append(_largest("arguments", unit, rows))
    if program.host_argument_bytes:
        rows = _rolled_up(program.host_argument_bytes)
        unit = "bytes for one device"
        tables.append(_largest("arguments on the host", unit, rows))
    unit = "bytes that a device sends"
    lines = [(*row, 1) for row in rows_of(program.communication)]
    table = _largest("collectives", unit, lines, _COLLECTIVES)
    tables.append(replace(table, joints=(_IN_PATHS, "(?<=, )")))
    rows = _rolled_up(program.transfers)
    tables.append(_largest("transfers before it starts", "bytes", rows))
    return tables


def legend_of(text: str) -> list[str]:
    """Explain the words of the tables that need it."""
    return [f"{x}: {why}" for x, why in _LEGEND.items() if x in text]


def _constants(program: "Program") -> list[_Row]:
    """Give the constants that are alike and of one line a row."""
    names = short({one.line for one in program.constants if one.line})
    alike: defaultdict[str, list[int]] = defaultdict(list)
    for each in program.constants:
        line = names.get(each.line, "unknown line")
        alike[f"{each.array}, {line}"].append(each.bytes)
    return [(f"{len(x)} {k}", sum(x), len(x)) for k, x in alike.items()]


def _rolled_up(sizes: Mapping[str, int] | None) -> list[_Row] | None:
    """Give each array a row, or the arrays of repeated layers one."""
    if sizes is None:
        return None
    rows = [(path, size, 1) for path, size in sizes.items()]
    if len(rows) <= _SHOWN:
        return rows
    groups = roll_up(rows, itemgetter(0), itemgetter(1))
    counted = [(path, alike[0][1], len(alike)) for path, alike in groups]
    return [(write_repeated(x, n), n * size, n) for x, size, n in counted]


def _largest(
    title: str, unit: str, rows: list[_Row] | None, limit: int = _SHOWN
) -> Table:
    """Make a table of the largest numbers, and sum up the rest."""
    none = [(_UNKNOWN if rows is None else "none", "")] * (not rows)
    order = sorted(rows or (), key=lambda row: -row[1])
    hidden = [name for name, *_ in order[rows_shown(len(order), limit) :]]
    table = numbers_table(title, unit, order, limit, none)
    return replace(table, keeps_start=True, hidden=hidden)
