"""What is saved of a program, to be compared with later."""

import linecache
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from shardbook.tools.communication import Collective, over
from shardbook.tools.paths import roll_up
from shardbook.tools.places import name_of
from shardbook.tools.rows import sent_by_argument

if TYPE_CHECKING:
    from shardbook.tools.program import Program

# What tells one row of collectives from another, in the order of a file.
KEYS = (
    "kind",
    "over",
    "direction",
    "argument",
    "function",
    "line",
    "caller",
    "depends on data",
)
# How many types of arrays, and how many arguments, a row names.
_NAMED = 3
# How many lines: where a collective comes from, and what called that; and
# as many of the outermost, which are in the step itself.
_FRAMES = 2


def record_of(program: "Program") -> dict[str, Any]:
    """Describe a program in terms of JSON, alike from run to run."""
    memory = program.memory
    inputs = program.inputs
    flops = program.flops
    return {
        "versions": dict(program.versions),
        "chip": program.chip,
        "mesh": dict(program.axes),
        "memory": {
            "total": memory.total,
            "arguments": memory.arguments,
            "results": memory.results,
            "temporaries": memory.temporaries,
            "donated": memory.donated,
            "host": memory.host,
        },
        "flops": {"total": flops.total, "counted": flops.counted},
        "collectives": _rows(
            program.communication,
            [each.wanted.path for each in inputs or ()],
        ),
        "arrays": None
        if inputs is None
        else {
            each.wanted.path: {
                **each.wanted.to_dict(),
                **({"donated": True} if each.donated else {}),
            }
            for each in inputs
        },
        "transfers": None
        if inputs is None
        else {
            each.wanted.path: {"given": each.given, "bytes": each.moved}
            for each in inputs
            if each.moved
        },
    }


def _rows(
    communication: tuple[Collective, ...], arguments: list[str]
) -> list[dict[str, Any]]:
    """Sum up the collectives that are alike and of one line."""
    times: Counter[tuple[Any, ...]] = Counter()
    sent: Counter[tuple[Any, ...]] = Counter()
    types: dict[tuple[Any, ...], Counter[str]] = {}
    paths: dict[tuple[Any, ...], set[str]] = {}
    places: dict[tuple[Any, ...], str] = {}
    names = _rolled_up(communication, arguments)
    alike = Counter(names.values())
    for each in communication:
        line, caller, *_ = *map(_line, each.frames[:_FRAMES]), "", ""
        for argument, part, those, arrays in _parts(each, names):
            key = (
                each.kind,
                over(each),
                each.direction,
                argument,
                each.function,
                line,
                caller,
                not each.exact,
            )
            times[key] += each.times
            sent[key] += part * each.times
            types.setdefault(key, Counter()).update(arrays)
            paths.setdefault(key, set()).update(those)
            places.setdefault(key, _place(each.frames))
    rows = []
    for key in sorted(times):
        row = {
            name: value
            for name, value in zip(KEYS, key, strict=True)
            if value
        }
        # Where it isn't every layer, or every array of a numbered name.
        some = sorted(paths[key])
        whole = alike[str(row.get("argument", ""))]
        if len(some) < whole and len(some) <= _NAMED:
            row["only"] = some
        row["at"] = places[key]
        row["arrays"] = [*sorted(types[key])][:_NAMED]
        row |= {"times": times[key], "sent": sent[key]}
        rows.append(row)
    return rows


def _place(frames: tuple[str, ...]) -> str:
    """Name the innermost lines and the outermost."""
    names = [*map(name_of, frames)]
    if len(names) > 2 * _FRAMES:
        names[_FRAMES:-_FRAMES] = ["..."]
    return " < ".join(names)


def _line(frame: str) -> str:
    """Read what is written at a line of code."""
    file, _, number = frame.rpartition(":")
    # It may have changed since another program was read.
    linecache.checkcache(file)
    return linecache.getline(file, int(number)).strip()


def _rolled_up(
    communication: tuple[Collective, ...], arguments: list[str]
) -> dict[str, str]:
    """Give the names of arguments without the numbers of layers."""
    named = {x for each in communication for x in each.arguments}
    return {
        argument: name
        for name, alike in roll_up(
            sorted({*arguments, *named}), str, lambda _: None
        )
        for argument in alike
    }


def _parts(
    each: Collective, names: dict[str, str]
) -> Iterator[tuple[str, int, list[str], list[str]]]:
    """Take a combined collective apart, into those of its arguments."""
    sent: Counter[str] = Counter()
    paths: dict[str, list[str]] = {}
    arrays: dict[str, list[str]] = {}
    for (path, size), array in zip(
        sent_by_argument(each), each.arrays, strict=True
    ):
        sent[names[path]] += size
        paths.setdefault(names[path], []).append(path)
        arrays.setdefault(names[path], []).append(array)
    for name, those in arrays.items():
        yield name, sent[name], paths[name], those
