"""The first lines of a report: what a program needs, and what is wrong."""

import re
from typing import TYPE_CHECKING

from shardscope.programs.memory import lacks_fusions
from shardscope.tables import size

if TYPE_CHECKING:
    from shardscope.programs.report import Program

# How many lines a report begins with, and how many name what looks wrong.
_LINES = 6
_WRONG = 3


def head_of(program: "Program") -> list[str]:
    """Write the first lines."""
    lines = [_where(program), _needs(program)]
    found = program.findings()
    if found:
        shown = found if len(found) <= _WRONG else found[: _WRONG - 1]
        lines += ["Looks wrong", *(f"  {each}" for each in shown)]
        if rest := len(found) - len(shown):
            lines.append(f"  and {rest} more: see findings()")
    return [*lines, *(f"Note: {x}" for x in program.notes())][:_LINES]


def _where(program: "Program") -> str:
    """Say what is compiled, and for which devices."""
    head = program._module.head
    name = re.match(r"HloModule (?:jit_)?(\w+)", head)
    counts = re.findall(r"num_(?:partitions|replicas)=(\d+)", head)
    count = max(map(int, counts), default=1)
    what = name[1] if name and "lambda" not in name[1] else "a call"
    axes = [f", {axis} {n}" for axis, n in program.axes.items() if n > 1]
    return f"{what} on {count} device{'s' * (count > 1)}{''.join(axes)}"


def _needs(program: "Program") -> str:
    """Say how much memory a device needs, and what it sends."""
    least = "at least " * lacks_fusions(program.text)
    need = f"needs {least}{size(program.memory.total)} on each"
    sent = [f"{size(n)} over {x}" for x, n in program.by("axis").items()]
    about = "about " * any(not x.exact for x in program.communication)
    what = f"{about}{', '.join(sent)} in a call" if sent else "nothing"
    return f"{need}; sends {what}"
