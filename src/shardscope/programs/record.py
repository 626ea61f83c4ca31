"""What is saved of a program, to be compared with later."""

import linecache
from collections import Counter, defaultdict
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from shardscope.arrays.paths import roll_up
from shardscope.lines import name_of
from shardscope.programs.collective import Collective, over
from shardscope.programs.rows import sent_by_argument

if TYPE_CHECKING:
    from shardscope.programs.report import Program

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


@dataclass
class _Part:
    """What a collective moves of arguments that are alike.

    Attributes:
        collective: The collective.
        argument: Their name, without the numbers of layers.
        sent: The bytes that a device sends each time.
        paths: The argument of each array.
        arrays: The type of each array.
    """

    collective: Collective
    argument: str
    sent: int = 0
    paths: list[str] = field(default_factory=list)
    arrays: list[str] = field(default_factory=list)


def record_of(program: "Program") -> dict[str, Any]:
    """Describe a program in terms of JSON, alike from run to run."""
    memory = program.memory
    arguments = program.arguments
    paths = [each.wanted.path for each in arguments or ()]
    flops = program.flops
    return {
        "versions": dict(program.versions),
        "chip": program.chip,
        "mesh": dict(program.axes),
        "memory": {"total": memory.total, **asdict(memory)},
        "flops": {"total": flops.total, "counted": flops.counted},
        "collectives": _rows(program.communication, paths),
        "arrays": None
        if arguments is None
        else {
            each.wanted.path: {
                **each.wanted.to_dict(),
                **({"donated": True} if each.donated else {}),
            }
            for each in arguments
        },
        "transfers": None
        if arguments is None
        else {
            each.wanted.path: {"given": each.given, "bytes": each.transfer}
            for each in arguments
            if each.transfer
        },
    }


def _rows(
    communication: tuple[Collective, ...], arguments: list[str]
) -> list[dict[str, Any]]:
    """Sum up the collectives that are alike and of one line."""
    groups: defaultdict[tuple[Any, ...], list[_Part]] = defaultdict(list)
    names = _rolled_up(communication, arguments)
    alike = Counter(names.values())
    for each in communication:
        line, caller, *_ = *map(_line, each.frames[:_FRAMES]), "", ""
        for part in _parts(each, names):
            key = (
                each.kind,
                over(each),
                each.direction,
                part.argument,
                each.function,
                line,
                caller,
                not each.exact,
            )
            groups[key].append(part)
    rows = []
    for key, parts in sorted(groups.items()):
        row = {k: x for k, x in zip(KEYS, key, strict=True) if x}
        # Where it isn't every layer, or every array of a numbered name.
        some = sorted({path for part in parts for path in part.paths})
        if len(some) < alike[parts[0].argument] and len(some) <= _NAMED:
            row["only"] = some
        types = {array for part in parts for array in part.arrays}
        row |= {
            "at": _in_words(parts[0].collective.frames),
            "arrays": sorted(types)[:_NAMED],
            "times": sum(part.collective.times for part in parts),
            "sent": sum(x.sent * x.collective.times for x in parts),
        }
        rows.append(row)
    return rows


def _in_words(frames: tuple[str, ...]) -> str:
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
    paths = sorted({*arguments, *named})
    groups = roll_up(paths, str, lambda _: None)
    return {path: name for name, alike in groups for path in alike}


def _parts(each: Collective, names: dict[str, str]) -> list[_Part]:
    """Take a combined collective apart, into those of its arguments."""
    parts: dict[str, _Part] = {}
    sent = sent_by_argument(each)
    for (path, size), array in zip(sent, each.arrays, strict=True):
        name = names[path]
        part = parts.setdefault(name, _Part(each, name))
        part.sent += size
        part.paths.append(path)
        part.arrays.append(array)
    return [*parts.values()]
