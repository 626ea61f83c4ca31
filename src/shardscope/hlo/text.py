"""Read a compiled program from its text in HLO."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

OP_NAME = re.compile(r'op_name="([^"]*)"')
_NAME = re.compile(r"%([\w.-]+)")
_OPCODE = re.compile(r" ([a-z][a-z0-9-]*)\(")
_ARRAY = re.compile(r"\b([a-z]\w*)\[([\d,]*)\]")
_PARAMETER = re.compile(r" parameter\((\d+)\)")
_INDEX = re.compile(r"\), index=(\d+)")
_LOOP = re.compile(r"\b(condition|body)=%([\w.-]+)")
_CALLED = re.compile(
    r"\b(?:calls|to_apply|body|condition|branch_computations"
    r"|true_computation|false_computation|called_computations)="
    r"(\{[^}]*\}|%[\w.-]+)"
)


@dataclass(frozen=True, slots=True)
class Instruction:
    """A line of a program.

    Attributes:
        name: Its name, which is unique in its computation.
        type: The type of its result, such as ``f32[8,4]{1,0}``, or a
            tuple of types.
        opcode: What it does, such as ``all-gather-start``.
        operands: The names of what it takes.
        text: All to the right of the equals sign, attributes included.
        is_root: Whether its result is that of its computation.
    """

    name: str
    type: str
    opcode: str
    operands: tuple[str, ...]
    text: str
    is_root: bool

    @property
    def called(self) -> list[str]:
        """The computations that it calls, in order."""
        # Most instructions call none, and this is quicker to see.
        if "=%" not in self.text and "={%" not in self.text:
            return []
        return [
            name
            for names in _CALLED.findall(self.text)
            for name in _NAME.findall(names)
        ]

    @property
    def loop(self) -> dict[str, str]:
        """The computations of a loop, by ``condition`` and ``body``."""
        return dict(_LOOP.findall(self.text))

    @property
    def number(self) -> int | None:
        """The number of a parameter among those of its computation."""
        return _number(_PARAMETER, self.text)

    @property
    def index(self) -> int | None:
        """The place in a tuple that a get-tuple-element takes."""
        return _number(_INDEX, self.text)

    @property
    def op_name(self) -> str:
        """The path of transformations that it comes from, or nothing."""
        named = OP_NAME.search(self.text)
        return named[1] if named else ""


# The instructions of a function by their names, in the order in which a
# device runs them: a compiled program is scheduled.
Computation = Mapping[str, Instruction]


@dataclass(frozen=True)
class Module:
    """A compiled program.

    Attributes:
        computations: Its functions, by their names.
        entry: The name of the one that a call runs.
        head: What stands before them: what is donated, and the tables of
            files and lines.
    """

    computations: Mapping[str, Computation]
    entry: str
    head: str

    @cached_property
    def roots(self) -> Mapping[str, str]:
        """The instruction whose result each computation returns."""
        return {
            name: root.name
            for name, computation in self.computations.items()
            if (root := root_of(computation))
        }

    @classmethod
    def of(cls, text: str) -> "Module":
        """Read the text of a program."""
        computations: dict[str, dict[str, Instruction]] = {}
        entry, lines = "", dict[str, Instruction]()
        for line in text.splitlines():
            if line.startswith("  "):
                if read := _instruction(line):
                    lines[read.name] = read
            elif line.endswith("{") and (name := _NAME.search(line)):
                lines = computations[name[1]] = {}
                if line.startswith("ENTRY"):
                    entry = name[1]
        return cls(computations, entry, text.partition("\n\n\n")[0])


def root_of(computation: Computation) -> Instruction | None:
    """Give the instruction whose result a computation returns."""
    return next(
        (each for each in computation.values() if each.is_root), None
    )


def _number(pattern: re.Pattern[str], text: str) -> int | None:
    """Read a number, if there is one."""
    found = pattern.search(text)
    return int(found[1]) if found else None


def _instruction(line: str) -> Instruction | None:
    """Read a line of a computation."""
    left, _, text = line.partition(" = ")
    opcode = _OPCODE.search(text)
    if not opcode:
        return None
    name = left.rpartition("%")[2]
    operands = text[opcode.end() :].partition(")")[0]
    return Instruction(
        name,
        text[: opcode.start()],
        opcode[1],
        tuple(_NAME.findall(operands)) if "%" in operands else (),
        text,
        left.startswith("  ROOT "),
    )


def arrays_in(type_: str) -> list[str]:
    """List the arrays of a type, such as ``"f32[8,4]"``."""
    return [f"{kind}[{sizes}]" for kind, sizes in _ARRAY.findall(type_)]


def bytes_in(array: str) -> int:
    """Count the bytes of an array such as ``"f32[8,4]"``."""
    kind, _, sizes = array.rstrip("]").partition("[")
    bits = 8 if kind == "pred" else int(re.findall(r"\d+", kind)[0])
    count = math.prod(map(int, filter(None, sizes.split(","))))
    return -(-count * bits // 8)
