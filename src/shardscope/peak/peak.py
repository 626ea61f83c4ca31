"""Which arrays hold a device's memory when it is fullest."""

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from shardscope.arrays.paths import pattern_of
from shardscope.hlo import (
    Computation,
    Instruction,
    Module,
    Sources,
    direction_of,
)
from shardscope.lines import name_of, short
from shardscope.peak.buffers import Buffer, Packing
from shardscope.peak.constants import constants_of
from shardscope.peak.inplace import number_of
from shardscope.peak.liveness import Value
from shardscope.tables import Table, html_of, numbers_table, text_of

# How many rows are shown, those with the most bytes.
_SHOWN = 10
# They say where an array lies or what it begins with, not what it is.
_MOVES = re.compile(
    r"(?:^|/)(?:broadcast\w*|copy[\w-]*|while|conditional|custom-call)$"
)
# What jax writes around the names of functions.
_WRAPPED = re.compile(r"\b(?:jit|jvp|transpose|vmap|shard_map)\(|[()]")
_JAX = (
    "",
    "body",
    "checkpoint",
    "closed_call",
    "cond",
    "eval_jaxpr",
    "rematted_computation",
    "while",
)


@dataclass(frozen=True, repr=False)
class PeakArray:
    """Arrays at the peak that are alike and come from one line.

    Attributes:
        array: Their type on a device, such as ``"f32[32,256,8000]"``.
        count: How many there are.
        bytes: Bytes of all of them, with the padding that a TPU needs.
        argument: The path of the argument, as in ``argument_bytes`` of
            :class:`Program`, if they are one, with ``*`` for the numbers
            of several. Empty if not.
        what: What computes them: the end of ``op_name``, such as
            ``"log_softmax/exp"``, with ``*`` for the numbers of several
            layers. ``"constant"`` for an array that is part of the program.
            Empty for an argument.
        is_result: Whether the program returns them. Their memory is theirs
            for all of the call, also before they are there.
        direction: The pass of a gradient that computes them, as in
            :class:`Collective`.
        line: File and line of the code that computes them, outside of
            jax, flax, optax and Python itself. Empty if the program
            does not tell.
        op_name: The path of transformations and primitives that the first
            of them comes from, as the compiler notes it.
    """

    array: str
    count: int
    bytes: int
    argument: str = ""
    what: str = ""
    is_result: bool = False
    direction: str = ""
    line: str = ""
    op_name: str = ""

    def __repr__(self) -> str:
        words = _in_words(self, self.line and name_of(self.line))
        return f"<{words}, {self.bytes:,} bytes>"


@dataclass(frozen=True, repr=False)
class Peak:
    """What a device holds when most of its memory is in use.

    The program's text has the order in which a device runs it. Each array
    is followed from where it is made to its last use, with what XLA keeps
    in the same memory counted once: the state of a loop, updates in place,
    donated arguments, and what is written over an operand. Arguments and
    results count throughout, because their memory does not change hands
    during a call. What a kernel uses inside, such as a TPU's VMEM, and
    what is on the host are left out.

    Attributes:
        arrays: The arrays, those with the most bytes first. Arrays that
            are alike and come from one line are one entry.
        total: The bytes that XLA assigns, which is ``memory.total`` of
            :class:`Program`. XLA may lose whole arrays between those that
            don't fit, and on TPU takes some megabytes for itself; the last
            row says how much. A temporary may be in a result's memory, and
            is then named instead.
    """

    arrays: tuple[PeakArray, ...]
    total: int

    @property
    def bytes(self) -> int:
        """The sum of the arrays."""
        return sum(each.bytes for each in self.arrays)

    @property
    def difference(self) -> float:
        """How much the sum differs from XLA's total, as a part of it."""
        return self.bytes / self.total - 1 if self.total else 0.0

    @cached_property
    def _table(self) -> Table:
        names = short({one.line for one in self.arrays if one.line})
        rows = [
            (_in_words(x, names.get(x.line, "")), x.bytes, x.count)
            for x in self.arrays
        ]
        difference = f"{self.bytes - self.total:+,}"
        totals = [
            ("sum", f"{self.bytes:,}"),
            ("XLA's total", f"{self.total:,}"),
            (f"difference, {self.difference:+.1%}", difference),
        ]
        title, unit = "arrays at the peak", "bytes on one device"
        return numbers_table(
            title, unit, rows, _SHOWN, totals, joints=("(?<=, )|(?<=/)",)
        )

    def __repr__(self) -> str:
        return text_of(self._table)

    def _repr_html_(self) -> str:
        return html_of(self._table, kind=" shardscope-program")


def peak_of(module: Module, names: Mapping[int, str], total: int) -> Peak:
    """Find what a program holds when most memory is in use.

    Args:
        module: The program.
        names: The names of its parameters, by number.
        total: The bytes that XLA assigns to it.
    """
    found = [
        PeakArray(x.array, 1, x.bytes, what="constant", line=x.line)
        for x in constants_of(module)
    ]
    buffers, at = Packing(module).peak()
    entry, sources = module.computations[module.entry], Sources(module.head)
    for buffer in buffers:
        value = _held(buffer, at)
        if buffer.parameter is not None:
            name = names.get(buffer.parameter, "")
            what = op_name = line = ""
        else:
            maker = _maker(value)
            name, op_name = "", maker.op_name
            what = _what(maker, entry, names)
            line = sources.of(maker.text)
        found.append(
            PeakArray(
                value.shape.array,
                1,
                buffer.bytes,
                argument=name,
                what=what,
                is_result=value.first is buffer.result,
                direction=direction_of(op_name),
                line=line,
                op_name=op_name,
            )
        )
    alike: defaultdict[tuple[object, ...], list[PeakArray]]
    alike = defaultdict(list)
    for each in found:
        alike[_key(each)].append(each)
    arrays = [
        replace(
            same[0],
            count=len(same),
            bytes=sum(each.bytes for each in same),
            argument=_common({each.argument for each in same}),
            what=_common({each.what for each in same}),
        )
        for same in alike.values()
    ]
    arrays.sort(key=lambda each: -each.bytes)
    return Peak(tuple(arrays), total)


def _key(each: PeakArray) -> tuple[object, ...]:
    """Give what an array's row says, without the numbers of layers."""
    names = _without_numbers(each.argument), _without_numbers(each.what)
    return (
        each.array,
        *names,
        each.is_result,
        each.direction,
        each.line,
    )


def _without_numbers(name: str) -> str:
    """Write the name of an array or a computation for all layers."""
    return "/".join(map(pattern_of, name.split("/")))


def _common(names: set[str]) -> str:
    """Write names that are the same but for the numbers of layers."""
    name = names.pop()
    return _without_numbers(name) if names else name


def _held(buffer: Buffer, at: int) -> Value:
    """Give the value that tells most about what a buffer holds."""
    # Nothing is in the memory of a result that is not there yet.
    # What is much smaller than it does not tell what the memory is for.
    now = [
        each
        for each in buffer.values
        if each.start <= at <= each.end
        and 2 * each.shape.bytes > buffer.bytes
    ]
    home = now[0].first if now else buffer.result or buffer.values[0].first
    same = [each for each in buffer.values if each.first is home]

    def rank(value: Value) -> tuple[bool, bool, bool]:
        is_past = value.start <= at
        return value.written is not None, not _moves(value.maker), is_past

    return max(reversed(same), key=rank)


def _moves(maker: Instruction) -> bool:
    """Tell whether an instruction says nothing about what it makes."""
    return bool(_MOVES.search(maker.op_name or maker.opcode))


def _maker(value: Value) -> Instruction:
    """Give the instruction that tells most about a value."""
    written = value.written
    return value.maker if not written or _moves(written) else written


def _what(
    maker: Instruction, entry: Computation, names: Mapping[int, str]
) -> str:
    """Say in few words what an instruction computes."""
    if not maker.op_name:
        operand = entry.get(maker.operands[0]) if maker.operands else None
        if operand and operand.opcode == "parameter":
            name = names.get(number_of(operand), "")
            return f"{maker.opcode.removesuffix('-start')} of {name}"
        return maker.opcode
    if "/" not in maker.op_name:
        # XLA changes the layout or the dtype of an argument.
        name = maker.op_name.replace("\\'", "'")
        return f"copy of {name}"
    words = _WRAPPED.sub("", maker.op_name).split("/")[1:]
    telling = [each for each in words if each not in _JAX]
    return "/".join(telling[-2:]) or maker.opcode


def _in_words(each: PeakArray, name: str) -> str:
    """Say what an array is, and where it comes from."""
    what = each.argument or each.what
    if each.is_result and not each.argument:
        what += ", a result"
    line = "" if each.argument else name or "unknown line"
    words = (f"{each.count} {each.array}", what, each.direction, line)
    return ", ".join(filter(None, words))
