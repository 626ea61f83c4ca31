"""Name what an axis of a value came from."""

import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import jax

from shardscope.arrays.paths import dotted
from shardscope.lines import lines_of_reader, name_of

if TYPE_CHECKING:
    from shardscope.propagation.shardy import Propagated


def namer(
    program: "Propagated", paths: Mapping[int, str], lowered: Any
) -> Callable[[str], str]:
    """Give a function that names what an axis came from.

    Args:
        program: The program after propagation.
        paths: The paths of its arguments, by their numbers.
        lowered: The program before, or its module.
    """
    # A module alone has no names of its results.
    out = getattr(lowered, "out_info", ())
    leaves = jax.tree_util.tree_leaves_with_path(out)
    results = [dotted(path) for path, _ in leaves]
    places = {
        each.origin: (each.name, lines_of_reader(each.frames))
        for each in program.operations
        if each.origin
    }
    callers: defaultdict[str, set[str]] = defaultdict(set)
    for _, lines in places.values():
        callers[lines[0] if lines else ""].update(lines[1:2])

    def name(origin: str) -> str:
        kind, _, number = origin.partition(": ")
        if kind == "input":
            at = int(number)
            return paths.get(at) or program.names[at] or f"argument {at}"
        if kind == "output":
            path = results[int(number)] if results else ""
            return f"out_shardings{' of ' * bool(path)}{path}"
        kind = kind.removesuffix("_input").removesuffix("_output")
        if kind not in places:
            return origin.replace("self", "itself")
        operation, lines = places[kind]
        manual = operation == "manual_computation"
        what = "shard_map" if manual else "constraint"
        if not lines:
            return f"a {what}"
        found = f"the {what} at {name_of(lines[0])}"
        # Of a function that others call for it, the caller says which.
        if len(callers[lines[0]]) > 1 and lines[1:]:
            found += f" from {name_of(lines[1])}"
        return found

    return name


def line_in(name: str) -> str:
    """Find the line in the name of a constraint or shard_map, or ``""``."""
    found = re.match(r"the \w+ at (.+?:\d+)", name)
    return found[1] if found else ""
