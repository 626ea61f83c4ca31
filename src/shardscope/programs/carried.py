"""What a turn of a compiled loop takes from the turn before."""

import re
from collections.abc import Callable, Collection

from shardscope.hlo import (
    Computation,
    Instruction,
    Module,
    Run,
    arrays_in,
    root_of,
)

# What gives a value, or a loop's, under another name.
_SAME = ("bitcast", "copy", "get-tuple-element")
# What takes one value or another.
_CHOICES = ("conditional", "select")
_OWN_NUMBER = "partition-id"


def is_passed_on(
    run: Run, module: Module, joins: Callable[[Instruction], bool]
) -> bool:
    """Tell whether what is sent comes from what the turn before received.

    Args:
        run: A collective with one operand.
        module: The program.
        joins: Tells whether an instruction is a collective between devices
            that the first collective joins too.

    Returns:
        Whether it is in one loop, and its operand is computed from its
        result in the turn before, as in a pipeline: no other collective
        between these devices comes between, a device chooses by its own
        number, as the first device does to take in something new, and the
        loop carries as many elements as are sent. False also if that
        result waits for longer than a turn.
    """
    loops = [each for _, each in run.callers if each.opcode == "while"]
    if len(loops) != 1 or loops[0].loop.get("body") != run.within:
        return False
    body = module.computations[run.within]
    root = root_of(body)
    if root is None or root.opcode != "tuple":
        return False

    own, sent = run.instruction.name, run.instruction.operands
    apart = {
        name
        for name, each in body.items()
        if name != own and _contains(each, module, joins)
    }
    before = _all_behind(body, sent, apart)
    for name in before:
        at = _slot(body, name)
        if at is None or _elements(body[name]) != _elements(body[sent[0]]):
            continue
        after = _all_behind(body, root.operands[at : at + 1], apart)
        if own in after and any(
            _chooses_by_number(each, run, module)
            for each in (
                *_between(body, before, name),
                *_between(body, after, own),
            )
        ):
            return True
    return False


def _slot(body: Computation, name: str) -> int | None:
    """Give the place of what a loop carries, if this is all a value is."""
    each = body[name]
    if each.opcode != "get-tuple-element":
        return None
    given = body.get(each.operands[0])
    return each.index if given and given.opcode == "parameter" else None


def _elements(each: Instruction) -> int:
    """Count the elements of the first array of a value."""
    count = 1
    for array in arrays_in(each.type)[:1]:
        for size in re.findall(r"\d+", array.partition("[")[2]):
            count *= int(size)
    return count


def _all_behind(
    body: Computation,
    names: tuple[str, ...],
    apart: Collection[str] = (),
) -> set[str]:
    """Give all that some values of a computation are computed from.

    Without what is apart, and what only that is computed from.
    """
    found: set[str] = set()
    left = [*names]
    while left:
        name = left.pop()
        if name in body and name not in found and name not in apart:
            found.add(name)
            left += body[name].operands
    return found


def _between(
    body: Computation, origins: set[str], first: str
) -> list[Instruction]:
    """Give those of some origins that are computed from one of them."""
    found = {first}
    # In the program's order, operands come first.
    for name, each in body.items():
        if name in origins and found & {*each.operands}:
            found.add(name)
    return [body[name] for name in found - {first}]


def _contains(
    each: Instruction,
    module: Module,
    is_wanted: Callable[[Instruction], bool],
) -> bool:
    """Tell whether an instruction is wanted, or calls one that is."""
    return is_wanted(each) or any(
        _contains(inner, module, is_wanted)
        for name in each.called
        for inner in module.computations.get(name, {}).values()
    )


def _chooses_by_number(each: Instruction, run: Run, module: Module) -> bool:
    """Tell whether a device takes one value or another by its number."""

    def is_choice(inner: Instruction) -> bool:
        return inner.opcode in _CHOICES

    def is_number(inner: Instruction) -> bool:
        return inner.opcode == _OWN_NUMBER

    if not _contains(each, module, is_choice):
        return False
    if _contains(each, module, is_number):
        return True
    # The loop, and all that is outside of it, may have the number.
    within, names = run.within, each.operands
    for outer, caller in run.callers:
        body = module.computations[within]
        origins = _all_behind(body, names)
        if any(
            _contains(body[name], module, is_number) for name in origins
        ):
            return True
        names = caller.operands
        if caller.opcode == "while":
            names = _unchanged(module, outer, caller, body, origins)
        within = outer
    body = module.computations[within]
    return any(
        _contains(body[name], module, is_number)
        for name in _all_behind(body, names)
    )


def _unchanged(
    module: Module,
    outer: str,
    loop: Instruction,
    body: Computation,
    origins: set[str],
) -> tuple[str, ...]:
    """Give what a loop starts with, of what no turn of it changes."""
    root = root_of(body)
    start = module.computations[outer].get(loop.operands[0])
    if root is None or start is None or start.opcode != "tuple":
        return ()
    slots = {_slot(body, name) for name in origins} - {None}
    return tuple(
        start.operands[at]
        for at, result in enumerate(root.operands)
        if at in slots and _slot(body, _without_copies(body, result)) == at
    )


def _without_copies(body: Computation, name: str) -> str:
    """Give the value that copies of it were made from."""
    while body[name].opcode in _SAME and _slot(body, name) is None:
        name = body[name].operands[0]
    return name
