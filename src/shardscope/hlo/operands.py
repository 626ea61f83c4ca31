"""Which argument of a compiled program a value is a copy or part of."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from shardscope.hlo.runs import Run
from shardscope.hlo.text import Instruction, Module

# Each element of the result is an element of the operands at these places,
# perhaps in another dtype, or a constant that pads them.
_MOVES: Mapping[str, slice] = {
    **dict.fromkeys(
        (
            "all-gather",
            "async-update",
            "bitcast",
            "broadcast",
            "collective-broadcast",
            "collective-permute",
            "convert",
            "copy",
            "dynamic-slice",
            "opt-barrier",
            "pad",
            "reduce-precision",
            "reshape",
            "reverse",
            "slice",
            "transpose",
        ),
        slice(1),
    ),
    "all-to-all": slice(None),
    "concatenate": slice(None),
    "dynamic-update-slice": slice(2),
    "select": slice(1, 3),
    # They are of no argument, and of anything computed neither.
    "constant": slice(0),
    "iota": slice(0),
}
# What they call gives their result.
_CALLS = ("async", "call", "conditional", "fusion")


class _Value(NamedTuple):
    """A value in a call of a program.

    Attributes:
        name: The instruction that computes it.
        at: Its place in the result, if this is a tuple.
        within: The computation of the instruction.
        callers: What calls this computation, innermost first, each with
            the name of its computation.
    """

    name: str
    at: tuple[int, ...]
    within: str
    callers: tuple[tuple[str, str], ...]


# What jax writes after a name: ``['kernel']`` or ``[0]``. A key with a dot
# in it stays, because without brackets it would read as two.
_KEY = re.compile(r"\[(?:'([^'.\\]*)'|([^\]'.]+))\]")


def names_of_parameters(
    module: Module, paths: Sequence[str] = ()
) -> dict[int, str]:
    """Name the parameters of a program, by their numbers.

    Args:
        module: The program.
        paths: The paths of the arguments that it uses, in its order.
            Without, or where one is empty, it is what XLA notes.
    """
    names = {
        each.number: _dotted(each.op_name)
        for each in module.computations.get(module.entry, {}).values()
        if each.opcode == "parameter" and each.number is not None
    }
    # What jax passes itself, such as the order of effects, comes first.
    start = len(names) - len(paths)
    given = {at: path for at, path in enumerate(paths, start) if path}
    return names | given


def _dotted(name: str) -> str:
    """Write ``params['w']``, as XLA notes it, as ``params.w``."""
    # The array of a Variable.
    name = name.replace("\\'", "'").removesuffix(".value")
    return _KEY.sub(lambda key: f".{key[1] or key[2]}", name)


def parameter_of(run: Run, name: str, module: Module) -> int | None:
    """Find the parameter of a program that an operand is a part of.

    Args:
        run: An instruction that the program runs.
        name: One of its operands.
        module: The program.

    Returns:
        The number of the parameter, or None if the operand is computed,
        is made of several parameters, or can't be followed.
    """
    callers = tuple((within, each.name) for within, each in run.callers)
    left = [_Value(name, (), run.within, callers)]
    seen, found = set(left), set[int | None]()
    while left:
        value = left.pop()
        computed_by = module.computations[value.within].get(value.name)
        if computed_by is None:
            return None
        if computed_by.opcode == "parameter" and not value.callers:
            found.add(computed_by.number)
            continue
        origins = _origins(value, computed_by, module)
        if origins is None:
            return None
        # In a loop, a value may come from itself in the turn before.
        new = set(origins) - seen
        seen |= new
        left += new
    return found.pop() if len(found) == 1 else None


def _origins(
    value: _Value, computed_by: Instruction, module: Module
) -> Iterable[_Value] | None:
    """Give what a value is a copy or part of, or None if it is computed."""
    name, at, within, callers = value
    opcode, operands = computed_by.opcode, computed_by.operands
    if opcode.endswith("-start"):
        opcode, at = opcode.removesuffix("-start"), at[1:]
    if opcode == "parameter":
        return _given(value, computed_by, module)
    if opcode == "get-tuple-element" and computed_by.index is not None:
        at = (computed_by.index, *at)
    elif opcode.endswith("-done"):
        # The start gives more than the result, which is all that is read.
        at = (0, *at)
    elif at and opcode in ("tuple", "all-gather"):
        operands, at = operands[at[0] :][:1], at[1:]
    elif opcode == "while" or opcode in _CALLS:
        results = [
            _Value(root, at, called, ((within, name), *callers))
            for called in _giving(computed_by)
            if (root := module.roots.get(called))
        ]
        if opcode != "while":
            return results
        # A loop that does not turn gives what it takes.
        return [*results, _Value(operands[0], at, within, callers)]
    elif opcode in _MOVES:
        operands = operands[_MOVES[opcode]]
    else:
        return None
    return [_Value(each, at, within, callers) for each in operands]


def _giving(caller: Instruction) -> list[str]:
    """Give the computations that a result comes from."""
    if caller.opcode == "while":
        return [caller.loop["body"]]
    return caller.called


def _given(
    value: _Value, parameter: Instruction, module: Module
) -> Iterable[_Value]:
    """Give what a computation takes as a parameter."""
    (outside, name), *callers = value.callers
    caller = module.computations[outside][name]
    operands: Iterable[str] = caller.operands
    if caller.opcode == "conditional":
        # The first operand says which branch is taken.
        branches = zip(caller.called, caller.operands[1:], strict=False)
        operands = [
            each for called, each in branches if called == value.within
        ]
    else:
        operands = caller.operands[parameter.number :][:1]
    given = [
        _Value(each, value.at, outside, tuple(callers)) for each in operands
    ]
    if caller.opcode != "while":
        return given
    # It also takes what the turn before gives.
    return given + [
        value._replace(name=root, within=body)
        for body in _giving(caller)
        if (root := module.roots.get(body))
    ]
