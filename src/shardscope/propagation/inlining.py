"""Rewrite a copy of a program as the compiler has it before it propagates.

Propagation stops at calls and at operations of CHLO, visits reshapes before
broadcasts, and takes longer into loops. XLA has inlined and rewritten all
that by then.
"""

import math
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from jaxlib.mlir import ir

# Which call an operation was inlined for, as a number.
_OURS = "shardscope."
CALL = f"{_OURS}call"
_MOVES = "stablehlo.broadcast_in_dim"


def operations_in(operation: Any) -> Iterator[Any]:
    """Give all operations within one, each before those within it."""
    for region in operation.regions:
        for block in region:
            for each in block:
                yield each.operation
                yield from operations_in(each.operation)


def functions_of(module: Any) -> dict[str, Any]:
    """Give the functions of a module by their names."""
    return {
        ir.StringAttr(each.operation.attributes["sym_name"]).value: (
            each.operation
        )
        for each in module.body
        if each.operation.name == "func.func"
    }


def inline_calls(module: Any) -> tuple[list[Any], dict[int, list[Any]]]:
    """Put the operations of each function where it is called.

    They get the number of the call as an attribute.

    Returns:
        The locations of the calls and the number of the call that each is
        within, or -1, by their numbers; and the locations of all calls of
        the same function.
    """
    functions = functions_of(module)
    calls: list[tuple[Any, int]] = []
    same: defaultdict[str, list[Any]] = defaultdict(list)
    together: dict[int, list[Any]] = {}
    while left := [
        each
        for each in operations_in(functions["main"])
        if each.name == "func.call"
    ]:
        for call in left:
            name = ir.FlatSymbolRefAttr(call.attributes["callee"]).value
            around = number_of(call)
            same[name].append(call.location)
            together[len(calls)] = same[name]
            number = ir.IntegerAttr.get(
                ir.IntegerType.get_signless(64), len(calls)
            )
            calls.append((call.location, around))
            _inline(call, functions[name].clone(), number)
    return calls, together


def number_of(operation: Any) -> int:
    """Give the number of the call that an operation comes from, or -1."""
    attributes = operation.attributes
    if CALL not in attributes:
        return -1
    return ir.IntegerAttr(attributes[CALL]).value


def _inline(call: Any, function: Any, number: Any) -> None:
    """Move the operations of a function before a call, in its place."""
    (block,) = function.regions[0]
    for parameter, given in zip(
        [*block.arguments], [*call.operands], strict=True
    ):
        parameter.replace_all_uses_with(given)
    *body, last = block
    for each in body:
        each.operation.move_before(call)
        each.operation.attributes[CALL] = number
        for inner in operations_in(each.operation):
            inner.attributes[CALL] = number
    for result, made in zip(
        [*call.results], [*last.operation.operands], strict=True
    ):
        result.replace_all_uses_with(made)
    call.erase()
    function.erase()


def rewrite_like_xla(module: Any) -> None:
    """Replace what propagation meets otherwise in XLA than in StableHLO."""
    for each in [*operations_in(module.operation)]:
        if each.name.startswith("chlo.") and len(each.results) == 1:
            kinds = {str(value.type) for value in each.operands}
            if kinds == {str(each.results[0].type)}:
                name = "negate" if len(each.operands) == 1 else "add"
                _replace(each, f"stablehlo.{name}", each.operands)
        elif each.name == _MOVES:
            _rewrite_broadcast(each)
        elif each.name == "stablehlo.while":
            _hoist_invariants(each)


def _hoist_invariants(loop: Any) -> None:
    """Let the turns of a loop use what is the same in all from outside."""
    regions = [region.blocks[0] for region in loop.regions]
    *_, last = regions[1]
    for at, back in enumerate([*last.operation.operands]):
        if back == regions[1].arguments[at]:
            given = loop.operands[at]
            loop.results[at].replace_all_uses_with(given)
            for block in regions:
                block.arguments[at].replace_all_uses_with(given)


def _rewrite_broadcast(operation: Any) -> None:
    """Make a broadcast a reshape, or one after a reshape."""
    given, made = operation.operands[0].type, operation.results[0].type
    before, after = list(given.shape), list(made.shape)
    key = "broadcast_dimensions"
    to = list(ir.DenseI64ArrayAttr(operation.attributes[key]))
    if not before:
        return
    if math.prod(before) == math.prod(after) and to == sorted(to):
        _replace(operation, "stablehlo.reshape", operation.operands)
        return
    kept = [
        at
        for at, size in enumerate(before)
        if size != 1 or after[to[at]] == 1
    ]
    if len(kept) == len(before):
        return
    with ir.InsertionPoint(operation), operation.location:
        small = ir.RankedTensorType.get(
            [before[at] for at in kept], given.element_type
        )
        first = ir.Operation.create(
            "stablehlo.reshape", [small], operation.operands
        )
    places = ir.DenseI64ArrayAttr.get([to[at] for at in kept])
    _replace(operation, _MOVES, first.results, {key: places})


def _replace(
    operation: Any, name: str, operands: Any, attributes: Any = None
) -> None:
    """Put another operation with the same results in place of one."""
    types = [value.type for value in operation.results]
    with ir.InsertionPoint(operation), operation.location:
        new = ir.Operation.create(
            name, types, list(operands), attributes or {}
        )
    for key in set(operation.attributes) - set(new.attributes):
        if key.startswith(_OURS):
            new.attributes[key] = operation.attributes[key]
    for old, result in zip(operation.results, new.results, strict=True):
        old.replace_all_uses_with(result)
    operation.erase()
