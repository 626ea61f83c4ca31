"""What a turn of a compiled loop takes from the turn before."""

import math
from collections.abc import Callable, Collection

from shardscope.hlo import (
    Computation,
    Instruction,
    Module,
    Run,
    arrays_in,
    bytes_in,
    root_of,
    sizes_in,
    trips_of,
)
from shardscope.programs.collective import SENT

# What gives a value, or a loop's, under another name.
_SAME = ("bitcast", "copy", "get-tuple-element")
# What takes one value or another.
_CHOICES = ("conditional", "select")
_OWN_NUMBER = "partition-id"
# What gives the same elements, in another order, dtype or number.
_MOVED = ("bitcast", "broadcast", "convert", "copy", "reshape", "transpose")
# What the terms of a sum may be, besides instructions of a loop's body.
_CONSTANT, _UNKNOWN = ("constant", None), ("unknown", None)
_Terms = list[tuple[str, int | None]]


# --- Passed on to the next device ---


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

    def count(name: str) -> int:
        return math.prod(sizes_in(body[name].type))

    for name in before:
        at = _slot(body, name)
        if at is None or count(name) != count(sent[0]):
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
    for outer, caller in (*run.callers, ("", each)):
        body = module.computations[within]
        origins = _all_behind(body, names)
        if any(_contains(body[x], module, is_number) for x in origins):
            return True
        names = caller.operands
        if caller.opcode == "while":
            names = _unchanged(module, outer, caller, body, origins)
        within = outer
    return False


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


# --- Added up ---


def avoidable(run: Run, module: Module, group: int) -> int:
    """Count the bytes that an all-reduce after its loop would not send.

    One that adds gives the same there if the loop only adds up the
    results: each sum is the sum of the turn before plus a result, perhaps
    times a constant, and nothing else in the loop reads either of them.
    The loop carries the whole sum already, so it needs no more memory.

    Args:
        run: A collective.
        module: The program.
        group: How many devices take part in each group.
    """
    reduce, body = run.instruction, module.computations[run.within]
    outer, loop = run.callers[0] if run.callers else ("", reduce)
    by = [root_of(module.computations.get(x, {})) for x in reduce.called]
    adds = [x and x.opcode for x in by] == ["add"] and reduce.opcode[
        :4
    ] == "all-"
    if loop.loop.get("body") != run.within or not adds:
        return 0
    own = reduce.name
    if reduce.opcode.endswith("-start"):
        done = (x.name for x in body.values() if x.operands == (own,))
        own = next(done, own)
    state = next(x.name for x in body.values() if x.opcode == "parameter")
    caller = module.computations[outer]
    turns = trips_of(loop, caller, module.computations) or 1
    results = body[module.roots[run.within]].operands
    saved = 0
    for at, name in enumerate(results):
        ends = dict(terms := _terms(body, name, module))
        if len(terms) != 2 or ends != {state: at, own: ends.get(own)}:
            continue
        rest = (*results[:at], *results[at + 1 :], *reduce.operands)
        users = [body[x] for x in _all_behind(body, rest)]
        read = {(x, each.index) for each in users for x in each.operands}
        if read.isdisjoint({*ends.items(), (state, None), (own, None)}):
            put_in = body[reduce.operands[ends[own] or 0]]
            for each, times in ((put_in, turns), (body[name], -1)):
                size = sum(map(bytes_in, arrays_in(each.type)))
                sent = SENT["all-reduce"](size, group) * run.times
                saved += sent * times // turns
    return max(0, saved)


def _terms(
    body: Computation,
    name: str,
    module: Module,
    given: Callable[[int], _Terms] | None = None,
) -> _Terms:
    """Give what a value is the sum of, each perhaps times a constant.

    Args:
        body: The computation of the value.
        name: Its instruction.
        module: The program.
        given: The terms of each parameter, if the loop's body calls the
            computation.

    Returns:
        The instruction of each term, and its place in the result.
    """
    each = body[name]

    def terms(at: int) -> _Terms:
        return _terms(body, each.operands[at], module, given)

    if each.opcode == "parameter" and given:
        return given(each.number or 0)
    if each.opcode in _MOVED:
        return terms(0)
    if each.opcode in ("call", "fusion"):
        inner = each.called[0]
        root, computation = module.roots[inner], module.computations[inner]
        return _terms(computation, root, module, terms)
    if each.opcode in ("divide", "multiply") and terms(1) == [_CONSTANT]:
        return terms(0)
    # What is a sum already isn't followed further, nor what is unknown.
    if each.opcode == "add" and len(first := terms(0)) == 1:
        return first + terms(1) if first != [_UNKNOWN] else first
    if each.opcode == "constant":
        return [_CONSTANT]
    if each.index is None or given:
        return [_UNKNOWN if given else (name, None)]
    return [(each.operands[0], each.index)]
