"""What a turn of a compiled loop takes from the turn before."""

from shardbook.tools.hlo.runs import Run
from shardbook.tools.hlo.text import Computation, Module, root_of


def is_passed_on(run: Run, module: Module) -> bool:
    """Tell whether what is sent depends on what the turn before received.

    Args:
        run: A collective with one operand.
        module: The program.

    Returns:
        Whether it is in one loop, and its operand is computed from its
        result in the turn before. False also if that result waits for
        longer than a turn.
    """
    loops = [each for _, each in run.callers if each.opcode == "while"]
    if len(loops) != 1 or loops[0].loop.get("body") != run.within:
        return False
    body = module.computations[run.within]
    root = root_of(body)
    if root is None or root.opcode != "tuple":
        return False
    taken = {
        each.index
        for each in map(body.get, _origins(body, run.instruction.operands))
        if each
        and each.opcode == "get-tuple-element"
        and body[each.operands[0]].opcode == "parameter"
    }
    return any(
        run.instruction.name in _origins(body, (result,))
        for at, result in enumerate(root.operands)
        if at in taken
    )


def _origins(body: Computation, names: tuple[str, ...]) -> set[str]:
    """Give all that some values of a computation are computed from."""
    found: set[str] = set()
    left = [*names]
    while left:
        name = left.pop()
        if name in body and name not in found:
            found.add(name)
            left += body[name].operands
    return found
