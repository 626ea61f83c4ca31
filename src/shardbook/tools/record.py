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
# How many types of arrays a row names.
_TYPES = 3
# How many lines: where a collective comes from, and what called that.
_FRAMES = 2


def record_of(program: "Program") -> dict[str, Any]:
    """Describe a program in terms of JSON, alike from run to run."""
    memory = program.memory
    inputs = program.inputs
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
        "collectives": _rows(program.communication),
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


def _rows(communication: tuple[Collective, ...]) -> list[dict[str, Any]]:
    """Sum up the collectives that are alike and of one line."""
    times: Counter[tuple[Any, ...]] = Counter()
    sent: Counter[tuple[Any, ...]] = Counter()
    types: dict[tuple[Any, ...], Counter[str]] = {}
    places: dict[tuple[Any, ...], str] = {}
    names = _rolled_up(communication)
    for each in communication:
        frames = each.frames[:_FRAMES]
        line, caller, *_ = *map(_line, frames), "", ""
        for argument, part, arrays in _parts(each, names):
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
            places.setdefault(key, " < ".join(map(name_of, frames)))
    return [
        {
            **{
                name: value
                for name, value in zip(KEYS, key, strict=True)
                if value
            },
            "at": places[key],
            "arrays": [*sorted(types[key])][:_TYPES],
            "times": times[key],
            "sent": sent[key],
        }
        for key in sorted(times)
    ]


def _line(frame: str) -> str:
    """Read what is written at a line of code."""
    file, _, number = frame.rpartition(":")
    # It may have changed since another program was read.
    linecache.checkcache(file)
    return linecache.getline(file, int(number)).strip()


def _rolled_up(communication: tuple[Collective, ...]) -> dict[str, str]:
    """Give the names of arguments without the numbers of layers."""
    arguments = sorted(
        {x for each in communication for x in each.arguments}
    )
    return {
        argument: name
        for name, alike in roll_up(arguments, str, lambda _: None)
        for argument in alike
    }


def _parts(
    each: Collective, names: dict[str, str]
) -> Iterator[tuple[str, int, list[str]]]:
    """Take a combined collective apart, into those of its arguments."""
    sent: Counter[str] = Counter()
    arrays: dict[str, list[str]] = {}
    for (path, size), array in zip(
        sent_by_argument(each), each.arrays, strict=True
    ):
        sent[names[path]] += size
        arrays.setdefault(names[path], []).append(array)
    for name, those in arrays.items():
        yield name, sent[name], those
