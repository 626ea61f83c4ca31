"""How often the loops of a compiled program turn."""

import re
from collections.abc import Mapping

from shardscope.hlo.text import Computation, Instruction, root_of

_NOTED = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')


def trips_of(
    loop: Instruction,
    caller: Computation,
    computations: Mapping[str, Computation],
) -> int | None:
    """Say how often a loop turns, or None if the program does not.

    XLA notes it for CPUs and GPUs. In a program for TPUs it has to be read:
    a counter starts at a constant, a constant is added in each turn, and
    it ends at another.
    """
    if noted := _NOTED.search(loop.text):
        return int(noted[1])
    names = loop.loop
    if not loop.operands or len(names) < 2:
        return None
    condition = computations[names["condition"]]
    body = computations[names["body"]]
    compared = root_of(condition)
    if (
        compared is None
        or compared.opcode != "compare"
        or "direction=LT" not in compared.text
    ):
        return None
    counter, limit = (_value(condition, n) for n in compared.operands)
    at = counter.index if counter else None
    end = _number(limit)
    state, after = _value(caller, loop.operands[0]), root_of(body)
    if at is None or end is None or state is None or after is None:
        return None
    if at >= min(len(state.operands), len(after.operands)):
        return None
    first = _number(_value(caller, state.operands[at]))
    added = _value(body, after.operands[at])
    if first is None or added is None or added.opcode != "add":
        return None
    before, amount = (_value(body, name) for name in added.operands)
    step = _number(amount)
    if before is None or before.index != at:
        return None
    return max(0, -((first - end) // step)) if step else None


def _value(computation: Computation, name: str) -> Instruction | None:
    """Give what computes a value; what it copies, if it is a copy."""
    found = computation.get(name)
    if found and found.opcode == "copy":
        return _value(computation, found.operands[0])
    return found


def _number(instruction: Instruction | None) -> int | None:
    """Read a constant."""
    if instruction is None:
        return None
    found = re.search(r" constant\((\d+)\)", instruction.text)
    return int(found[1]) if found else None
