"""The arrays that are part of a compiled program."""

import re
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Any

from shardscope.hlo import Computation, Instruction, Module, Sources
from shardscope.lines import name_of
from shardscope.peak.shapes import Shape, shapes_of

# By such tables XLA finds the slice of a device; all together are small.
_INTEGERS = re.compile(r"[su]\d|pred")
_TABLES = 2**12
Users = defaultdict[str, list[Instruction]]


@dataclass(frozen=True, repr=False)
class Constant:
    """An array that is part of a compiled program, not an argument.

    A function that reads an array from outside makes it one, and it is
    whole on each device. XLA also computes some itself.

    Attributes:
        array: Its type, such as ``"f32[2048,8192]"``.
        bytes: Bytes that it takes on each device.
        line: File and line of the code that uses it first, as in
            ``frames`` of :class:`Collective`. Empty if the program does
            not tell.
        captured: Whether the function reads it from outside: an array of
            its type was in the program before XLA optimized it. False if
            that is not known.
    """

    array: str
    bytes: int
    line: str
    captured: bool = False

    def __repr__(self) -> str:
        line = name_of(self.line) if self.line else "unknown line"
        return f"<{self.array}, {line}, {self.bytes:,} bytes>"


def constants_of(module: Module) -> tuple[Constant, ...]:
    """Find the constants of a program, the largest first.

    Numbers are left out, what a fusion has inside, which is part of the
    code, and tables of integers that take less than 4 KiB together.
    """
    computations = module.computations
    fused = {
        name
        for computation in computations.values()
        for each in computation.values()
        if each.opcode == "fusion"
        for name in each.called
    }
    sources = Sources(module.head)
    found = []
    for name, computation in computations.items():
        if name in fused or not (arrays := _arrays(computation)):
            continue
        users = _users(computation)
        for each, shape in arrays:
            line = _line_of(each, users, sources)
            found.append(Constant(shape.array, shape.bytes, line))
    found.sort(key=lambda each: -each.bytes)
    floats = [x for x in found if not _INTEGERS.match(x.array)]
    tables = sum(x.bytes for x in found) - sum(x.bytes for x in floats)
    return tuple(floats if tables < _TABLES else found)


def mark_captured(
    constants: tuple[Constant, ...], lowered: Any
) -> tuple[Constant, ...]:
    """Mark the constants that were in a program as jax has lowered it."""
    if not constants:
        return ()
    # Without the elements, but for those of constants that are one number.
    text = lowered.compiler_ir().operation.get_asm(large_elements_limit=8)
    types = {
        _as_in_hlo(found.split("x"))
        for found in re.findall(r"__elided__> : tensor<([^>]*)>", text)
    }
    return tuple(
        replace(each, captured=each.array in types) for each in constants
    )


def _as_in_hlo(type_: list[str]) -> str:
    """Write a type of MLIR, ``2x4xui8``, as ``u8[2,4]``."""
    *sizes, dtype = type_
    kind = "pred" if dtype == "i1" else re.sub("^i", "s", dtype.lower())
    return f"{kind.replace('ui', 'u')}[{','.join(sizes)}]"


def _arrays(
    computation: Computation,
) -> list[tuple[Instruction, Shape]]:
    """List the constants of a computation, but for numbers."""
    return [
        (each, shape)
        for each in computation.values()
        if each.opcode == "constant"
        and isinstance(shape := shapes_of(each.type), Shape)
        and not shape.array.endswith("[]")
    ]


def _users(computation: Computation) -> Users:
    """Give for each name the instructions that take it as an operand."""
    users: Users = defaultdict(list)
    for each in computation.values():
        for name in each.operands:
            users[name].append(each)
    return users


def _line_of(constant: Instruction, users: Users, sources: Sources) -> str:
    """Find the line of a constant, or else of what it goes into."""
    names, left = {constant.name}, [constant]
    while left:
        each = left.pop(0)
        if line := sources.of(each.text):
            return line
        left += [x for x in users[each.name] if x.name not in names]
        names.update(x.name for x in left)
    return ""
