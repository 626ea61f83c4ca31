"""When the arrays of a compiled program are needed, and which share memory.

XLA schedules a program before it assigns memory, so the text has the order
in which a device runs it. Here are the rules by which XLA decides what has
to share memory: the state of a loop, and what is updated in place.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from shardscope.hlo import Instruction, Module
from shardscope.peak.inplace import (
    ON_GPU,
    Fusion,
    listed_on_tpu,
    number_of,
    over_operands,
    pairs_of,
)
from shardscope.peak.shapes import Shape, Shapes, shapes_of

_TRANSPARENT = ("async-update", "bitcast", "copy-update", "opt-barrier")


@dataclass(eq=False, slots=True)
class Value:
    """An array that an instruction makes, or that a loop carries.

    Attributes:
        shape: Its type and its bytes.
        maker: The instruction that makes it.
        start: When it is made: the number of instructions before.
        end: When it is needed for the last time.
        home: A value in the same memory, or None if this was there first.
        written: What writes a part of it, if the rest was there before.
    """

    shape: Shape
    maker: Instruction
    start: int
    end: int
    home: "Value | None" = None
    written: Instruction | None = None

    @property
    def first(self) -> "Value":
        """The value that was first in this memory."""
        found = self
        while found.home is not None:
            found = found.home
        return found

    def join(self, other: "Value") -> None:
        """Put this and all that share its memory where another is."""
        mine, its = self.first, other.first
        if mine is not its:
            mine.home = its


# What an instruction gives: an array, or a tuple of what is nested.
Tree = Value | list["Tree"]


def leaves(tree: Tree) -> Iterator[Value]:
    """Give the values of a tree, in order."""
    if isinstance(tree, Value):
        yield tree
    else:
        for part in tree:
            yield from leaves(part)


def value_at(tree: Tree, place: Sequence[int]) -> Value | None:
    """Give the value at a place of a tree, or None if none is there."""
    for index in place:
        if isinstance(tree, Value) or index >= len(tree):
            return None
        tree = tree[index]
    return tree if isinstance(tree, Value) else None


class Walk:
    """A call of a program, instruction by instruction.

    Attributes:
        values: All arrays, in the order in which they are made.
        parameters: What the program is given, by number.
        result: What it returns.
        reusable: An array that is needed for the last time, and one that
            is made then and may be written over it.
        end: The time at which the program ends.
    """

    def __init__(self, module: Module) -> None:
        self.values: list[Value] = []
        self.parameters: dict[int, Tree] = {}
        self.reusable: list[tuple[Value, Value]] = []
        self.end = 0
        self._computations = module.computations
        self._fusion = cache(
            lambda name, on_gpu: Fusion(module.computations[name], on_gpu)
        )
        self.result = self._run(module.entry, None)

    # --- what runs ---

    def _run(self, name: str, given: Sequence[Tree] | None) -> Tree:
        """Walk through a computation; return what it gives."""
        made: dict[str, Tree] = {}
        result: Tree = []
        for each in self._computations[name].values():
            self.end += 1
            if each.opcode != "parameter":
                operands = [made[other] for other in each.operands]
                tree = self._step(each, operands)
            elif given is not None:
                tree = given[number_of(each)]
            else:
                tree = self.parameters[number_of(each)] = self._new(each)
            made[each.name] = tree
            if each.is_root:
                result = tree
        self._use([result])
        return result

    def _step(self, each: Instruction, operands: list[Tree]) -> Tree:
        """Walk over an instruction; return what it gives."""
        opcode = each.opcode
        if opcode == "get-tuple-element":
            (whole,) = operands
            if each.index is None or isinstance(whole, Value):
                return whole
            return whole[each.index]
        if opcode == "tuple":
            return operands
        if opcode in _TRANSPARENT:
            return operands[0]
        if opcode == "while":
            return self._loop(each, operands[0])
        if opcode == "conditional":
            return self._branches(each, operands)
        if opcode == "call":
            return self._run(each.called[0], operands)
        if opcode == "async-start" and each.called:
            return [operands, self._run(each.called[0], operands), []]
        self._use(operands)
        if opcode.endswith("-done"):
            return _finished(opcode, operands[0])
        return self._make(each, operands)

    def _loop(self, each: Instruction, state: Tree) -> Tree:
        """Walk through a loop, whose state stays where it is."""
        called = each.loop
        carried = self._carried(each, state)
        self._run(called["condition"], [carried])
        # What goes in is not needed once the body has begun.
        self._use([state])
        after = self._run(called["body"], [carried])
        for old, new in zip(leaves(carried), leaves(after), strict=True):
            new.join(old)
        return self._carried(each, after)

    def _carried(self, each: Instruction, state: Tree) -> Tree:
        """Give a loop's state, in the memory of another."""
        if not isinstance(state, Value):
            return [self._carried(each, part) for part in state]
        value = self._value(state.shape, each)
        value.join(state)
        return value

    def _branches(self, each: Instruction, operands: list[Tree]) -> Tree:
        """Walk through all branches, which give to the same memory."""
        results = []
        for name, given in zip(each.called, operands[1:], strict=True):
            self._use([given])
            results.append(self._run(name, [given]))
        result = self._new(each)
        for branch in results:
            for one, other in zip(
                leaves(branch), leaves(result), strict=True
            ):
                one.join(other)
        return result

    # --- what is made ---

    def _use(self, trees: Iterable[Tree]) -> None:
        for tree in trees:
            for value in leaves(tree):
                value.end = self.end

    def _value(self, shape: Shape, maker: Instruction) -> Value:
        value = Value(shape, maker, self.end, self.end)
        self.values.append(value)
        return value

    def _new(self, each: Instruction) -> Tree:
        """Make the arrays of an instruction's type."""
        return self._all(shapes_of(each.type), each)

    def _all(self, shapes: Shapes, maker: Instruction) -> Tree:
        if isinstance(shapes, Shape):
            return self._value(shapes, maker)
        return [self._all(part, maker) for part in shapes]

    def _started(self, each: Instruction, operands: list[Tree]) -> Tree:
        """Make what a start gives, which includes its operands."""
        shapes = shapes_of(each.type)
        if isinstance(shapes, Shape):
            return self._value(shapes, each)
        given: Tree = operands
        at = 1 if each.opcode == "copy-start" else 0
        if isinstance(shapes[at], Shape):
            if each.opcode == "all-reduce-start":
                return self._all(shapes, each)
            given = operands[0]
        return [
            given if place == at else self._all(part, each)
            for place, part in enumerate(shapes)
        ]

    def _make(self, each: Instruction, operands: list[Tree]) -> Tree:
        """Make what an instruction computes, and see where it is put."""
        is_start = each.opcode.endswith("-start")
        result = (
            self._started(each, operands) if is_start else self._new(each)
        )
        pairs = [*pairs_of(each)]
        on_gpu = ON_GPU in each.text
        if each.opcode == "fusion":
            fusion = self._fusion(each.called[0], on_gpu)
            pairs += fusion.updated
            reusable = fusion.reusable
        else:
            reusable = over_operands(each)
        for operand, place, written in pairs:
            old, new = value_at(operands, operand), value_at(result, place)
            if old and new:
                new.join(old)
                new.written = _writer(written, operands)
        listed = listed_on_tpu(each)
        if listed is not None:
            arrays = [*leaves(operands), *leaves(result)]
            for one, other in listed:
                if other < len(arrays):
                    arrays[other].join(arrays[one])
            return result
        for operand, place, _ in reusable:
            old, new = value_at(operands, operand), value_at(result, place)
            if (
                old
                and new
                and (
                    old.shape[1:3] == new.shape[1:3]
                    if on_gpu
                    else old.shape == new.shape
                )
            ):
                self.reusable.append((old, new))
        return result


def _finished(opcode: str, started: Tree) -> Tree:
    """Give what is left of a start when it is done."""
    if isinstance(started, Value):
        return started
    match opcode:
        case "send-done":
            return []
        case "recv-done":
            return [started[0], []]
        case "copy-done":
            return started[0]
        case "all-reduce-done" if isinstance(started[0], Value):
            return started
        case _:
            return started[1]


def _writer(
    written: int | Instruction | None, operands: list[Tree]
) -> Instruction | None:
    """Give what makes a part that is written."""
    if not isinstance(written, int):
        return written
    part = operands[written]
    if isinstance(part, Value) and part.maker.opcode != "while":
        return part.maker
    return None
