"""Read the instructions of a program from its text in HLO."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

KINDS = (
    "all-gather",
    "all-reduce",
    "all-to-all",
    "collective-broadcast",
    "collective-permute",
    "ragged-all-to-all",
    "reduce-scatter",
)
# Its sizes are data: what is sent is known only when it runs.
RAGGED = "ragged-all-to-all"


@dataclass(frozen=True)
class Found:
    """An instruction, and how often a call runs it."""

    kind: str
    line: str
    origin: str  # the line with its metadata: its own, or its caller's
    types: Mapping[str, str]
    reduction: str  # such as "add"; empty if there is none that is known
    times: int
    counted: bool
    bounded: bool


# --- Instructions ---

_OPCODE = re.compile(r" ([a-z][a-z0-9-]*)\(")


_COLLECTIVE = re.compile(rf"({'|'.join(KINDS)})(?:-start)?")


_CALLED = re.compile(
    r"\b(?:calls|to_apply|body|condition|branch_computations"
    r"|true_computation|false_computation|called_computations)="
    r"(\{[^}]*\}|%[\w.-]+)"
)


OP_NAME = re.compile(r'op_name="([^"]*)"')


# The TPU's compiler may spread one over several fusions, with what else is
# computed meanwhile.
_CHAIN = re.compile(r"channel_id=(\d+),.* frontend_attributes=\{chain_id=")


_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')


_NAME = re.compile(r"%([\w.-]+)")


PAIRS = re.compile(r"source_target_pairs=\{((?:\{[\d,]*\},?)*)\}")


_REDUCTION = re.compile(r"\bto_apply=%([\w.-]+)")


_REDUCTIONS = ("add", "maximum", "minimum", "multiply", "and", "or")


_ARRAY = re.compile(r"\b([a-z]\w*)\[([\d,]*)\]")


def instructions_of(text: str) -> list[Found]:
    """Find the collectives that a call runs, through all that it calls."""
    computations: dict[str, list[str]] = {}
    entry, lines = "", []
    for line in text.splitlines():
        if line.startswith("  "):
            lines.append(line)
        elif line.endswith("{") and (name := _NAME.search(line)):
            lines = computations[name[1]] = []
            if line.startswith("ENTRY"):
                entry = name[1]

    @cache
    def within(name: str) -> list[Found]:
        found: list[Found] = []
        chains: set[str] = set()
        types: dict[str, str] = {}
        for line in computations.get(name, ()):
            left, _, right = line.partition(" = ")
            opcode = _OPCODE.search(right)
            if not opcode:
                continue
            types[left.split("%")[-1]] = right[: opcode.start()]
            kind = _COLLECTIVE.fullmatch(opcode[1])
            if kind:
                # The TPU's compiler fuses the two steps of this one.
                fused = name.startswith("all-reduce-scatter")
                word = "reduce-scatter" if fused else kind[1]
                reduction = _reduction(right, computations)
                found.append(
                    Found(
                        word, right, right, types, reduction, 1, True, True
                    )
                )
            elif "=%" in right or "={%" in right:
                for each in called(opcode[1], right, name):
                    chain = _CHAIN.search(each.line)
                    if not chain or chain[1] not in chains:
                        found.append(each)
                    if chain:
                        chains.add(chain[1])
        return found

    def called(opcode: str, line: str, caller: str) -> Iterator[Found]:
        trips = None
        if opcode == "while":
            trips = _trips(line, computations[caller], computations)
        times = 1 if trips is None else trips
        bounded = trips is not None or opcode != "while"
        # Of a conditional only one branch runs.
        counted = bounded and opcode != "conditional"
        for names in _CALLED.findall(line):
            for name in _NAME.findall(names):
                for each in within(name):
                    yield Found(
                        each.kind,
                        each.line,
                        each.origin
                        if OP_NAME.search(each.origin)
                        else line,
                        each.types,
                        each.reduction,
                        each.times * times,
                        each.counted and counted,
                        each.bounded and bounded,
                    )

    return within(entry)


def _reduction(line: str, computations: Mapping[str, Sequence[str]]) -> str:
    """Say by what a collective combines the values of two devices."""
    named = _REDUCTION.search(line)
    body = computations.get(named[1], ()) if named else ()
    opcode = _OPCODE.search(body[-1]) if body else None
    word = opcode[1] if opcode else ""
    return word if word in _REDUCTIONS else ""


def _trips(
    loop: str, caller: list[str], computations: Mapping[str, list[str]]
) -> int | None:
    """Say how often a loop turns, or None if the program does not.

    XLA notes it for CPUs and GPUs. In a program for TPUs it has to be read:
    a counter starts at a constant, a constant is added in each turn, and
    it ends at another.
    """
    if noted := _TRIPS.search(loop):
        return int(noted[1])
    states = _parts(loop)
    names = dict(re.findall(r"\b(condition|body)=%([\w.-]+)", loop))
    if not states or len(names) < 2:
        return None
    condition = computations[names["condition"]]
    body = computations[names["body"]]
    less = re.search(
        r"compare\(%([\w.-]+), %([\w.-]+)\), direction=LT",
        _value(condition, "ROOT"),
    )
    if not less:
        return None
    counter = re.search(r"index=(\d+)", _value(condition, less[1]))
    limit = _number(_value(condition, less[2]))
    if not counter or limit is None:
        return None
    at = int(counter[1])
    first = _parts(_value(caller, states[0]))[at:][:1]
    last = _parts(_value(body, "ROOT"))[at:][:1]
    if not first or not last:
        return None
    added = _value(body, last[0])
    terms = [_value(body, term) for term in _parts(added)]
    if " add(" not in added or f"index={at}," not in f"{terms[0]},":
        return None
    begin, step = _number(_value(caller, first[0])), _number(terms[1])
    if begin is None or not step:
        return None
    return max(0, -((begin - limit) // step))


def _value(lines: list[str], name: str) -> str:
    """Give what an instruction computes; what it copies, if it does."""
    start = f"%{name} = "
    for line in lines:
        text = line.strip()
        if name == "ROOT" and text.startswith("ROOT "):
            return text
        if text.removeprefix("ROOT ").startswith(start):
            copied = re.search(r" copy\(%([\w.-]+)\)", text)
            return _value(lines, copied[1]) if copied else text
    return ""


def _parts(text: str) -> list[str]:
    """Name the operands of an instruction."""
    opcode = _OPCODE.search(text)
    if not opcode:
        return []
    return _NAME.findall(text[opcode.end() :].partition(")")[0])


def _number(text: str) -> int | None:
    """Read a constant."""
    found = re.search(r" constant\((\d+)\)", text)
    return int(found[1]) if found else None


def operands_of(found: Found) -> tuple[str, ...]:
    """Give the arrays that a device puts into a collective."""
    names = _parts(found.line)
    if found.kind in ("collective-permute", RAGGED):
        # Others say where the result goes, and how much of it.
        names = names[:1]
    return tuple(
        f"{kind}[{sizes}]"
        for name in names
        for kind, sizes in _ARRAY.findall(found.types.get(name, ""))
    )


def bytes_in(array: str) -> int:
    """Count the bytes of an array such as ``"f32[8,4]"``."""
    kind, _, sizes = array.rstrip("]").partition("[")
    bits = 8 if kind == "pred" else int(re.findall(r"\d+", kind)[0])
    count = math.prod(map(int, filter(None, sizes.split(","))))
    return -(-count * bits // 8)
