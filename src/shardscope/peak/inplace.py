"""Which results of an instruction may lie where its operands are."""

import re
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

from shardscope.hlo import Computation, Instruction, root_of

PAIR = re.compile(r"\{([\d, ]*)\}: \((\d+), \{([\d, ]*)\}")
_NOTED = re.compile(r"output_to_operand_aliasing=\{(.*?\))\}")
# The GPU's compiler writes this for each instruction.
ON_GPU = '"operation_queue_id"'
# The TPU's compiler numbers the arrays of the operands and, behind them,
# those of the result, and lists which of them share memory.
_ON_TPU = '"aliasing_operands"'
_LISTED = re.compile(r'"indices":\["(\d+)","(\d+)"')
# They change a part of their first operand, and leave the rest.
_UPDATES = ("dynamic-update-slice", "scatter", "set-dimension-size")
# An element of the result depends on the same element of the operands, so
# it may be written over it.
_ELEMENTWISE = frozenset(
    re.findall(
        r"\S+",
        "abs add and atan2 bitcast-convert cbrt ceil clamp compare complex"
        " convert cosine divide erf exponential exponential-minus-one"
        " floor imag is-finite log log-plus-one logistic maximum minimum"
        " multiply negate not or popcnt power real reduce-precision"
        " remainder round-nearest-afz round-nearest-even rsqrt select"
        " shift-left shift-right-arithmetic shift-right-logical sign sine"
        " sqrt subtract tan tanh xor",
    )
)
_CHANGES_TYPE = ("bitcast", "convert", "copy", "reshape")


class Pair(NamedTuple):
    """An operand and a result in the same memory.

    Attributes:
        operand: The number of the operand, then the place in it.
        result: The place in the result, ``()`` if it is an array.
        written: What is written there, if only a part changes: the number
            of an operand, or an instruction inside a fusion.
    """

    operand: tuple[int, ...]
    result: tuple[int, ...]
    written: int | Instruction | None = None


def numbers_in(text: str) -> tuple[int, ...]:
    """Read the whole numbers in a text."""
    return tuple(int(each) for each in re.findall(r"\d+", text))


def pairs_of(each: Instruction) -> Iterator[Pair]:
    """Find the pairs of an instruction, except those inside a fusion."""
    if noted := _NOTED.search(each.text):
        for result, number, place in PAIR.findall(noted[1]):
            operand = (int(number), *numbers_in(place))
            yield Pair(operand, numbers_in(result))
    elif each.opcode in _UPDATES:
        written = 1 if each.opcode == "dynamic-update-slice" else None
        # A scatter may change several arrays, and gives as many.
        several = each.type.startswith("(")
        for at in range(len(each.operands) // 2 if several else 1):
            yield Pair((at,), (at,) if several else (), written)
    elif each.opcode == "all-reduce-start":
        several = each.type.startswith("(")
        for at in range(len(each.operands)):
            yield Pair((at,), (at,) if several else ())


def listed_on_tpu(each: Instruction) -> list[tuple[int, int]] | None:
    """Read the pairs of arrays that the TPU's compiler lists, if any."""
    _, found, rest = each.text.partition(_ON_TPU)
    if not found:
        return None
    lists = rest.partition("]}]")[0] + "]"
    return [(int(one), int(two)) for one, two in _LISTED.findall(lists)]


def over_operands(each: Instruction) -> list[Pair]:
    """Find the operands that a result may be written over."""
    if each.opcode in _ELEMENTWISE or (
        # GPUs reduce in place.
        each.opcode == "all-reduce"
        and len(each.operands) == 1
        and ON_GPU in each.text
    ):
        return [Pair((number,), ()) for number in range(len(each.operands))]
    return []


class Fusion:
    """What a fusion does with the memory of its operands.

    Args:
        computation: What it computes.
        on_gpu: Whether it is for a GPU, where a result may be written
            over an operand of another type, too, if the sizes agree.
    """

    def __init__(self, computation: Computation, on_gpu: bool) -> None:
        self._passing = {"copy", *(("bitcast",) if on_gpu else ())}
        self._inside = computation
        root = root_of(computation)
        assert root, "a fusion gives a result"
        self._roots: dict[tuple[int, ...], Instruction] = {(): root}
        if root.opcode == "tuple":
            self._roots = {
                (at,): computation[name]
                for at, name in enumerate(root.operands)
            }

    @cached_property
    def updated(self) -> list[Pair]:
        """The operands of which it changes a part."""
        found = []
        for place, root in self._roots.items():
            each = self._behind(root, ("bitcast",))
            if each.opcode not in _UPDATES:
                continue
            taken = self._inside[each.operands[0]]
            taken = self._behind(taken, ("bitcast",))
            if taken.opcode != "parameter":
                continue
            written: int | Instruction | None = None
            if each.opcode == "dynamic-update-slice":
                part = self._inside[each.operands[1]]
                written = self._behind(part, _CHANGES_TYPE)
                if written.opcode == "parameter":
                    written = number_of(written)
            found.append(Pair((number_of(taken),), place, written))
        return found

    @cached_property
    def reusable(self) -> list[Pair]:
        """The operands that a result may be written over.

        These are the ones that each result needs only element by element.
        """
        near: list[tuple[tuple[int, ...], str]] = []
        far: set[str] = set()
        for place, root in self._roots.items():
            left, seen = [(root.name, True)], set[tuple[str, bool]]()
            while left:
                name, same = found = left.pop()
                if found in seen:
                    continue
                seen.add(found)
                each = self._inside[name]
                if each.opcode == "parameter" and same:
                    near.append((place, name))
                elif each.opcode == "parameter":
                    far.add(name)
                same = same and each.opcode in _ELEMENTWISE | self._passing
                left += [(other, same) for other in each.operands]
        return [
            Pair((number_of(self._inside[name]),), place)
            for place, name in near
            if name not in far
        ]

    def _behind(
        self, each: Instruction, opcodes: tuple[str, ...]
    ) -> Instruction:
        """Look through instructions that pass on what they are given."""
        while each.opcode in opcodes:
            each = self._inside[each.operands[0]]
        return each


def number_of(parameter: Instruction) -> int:
    """Give the number of what is known to be a parameter."""
    assert parameter.number is not None, "a parameter has a number"
    return parameter.number
