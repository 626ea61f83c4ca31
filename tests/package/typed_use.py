"""What a type checker knows of the public names: mypy reads this file.

Python never runs it. Most types below are of Python or jax, for a name
without a type would pass as a type too.
"""

from collections.abc import Callable
from typing import Any, assert_type

import jax

import shardscope
from shardbook import raises
from shardgrade import Verdict, check
from shardscope import (
    Argument,
    BudgetExceeded,
    Change,
    Collective,
    Difference,
    Drawing,
    Finding,
    LayoutMismatch,
    LeafLayout,
    Machine,
    Memory,
    Program,
    ProgramMismatch,
    TreeLayout,
    collectives,
    devices_of,
    draw,
    layout,
    machine,
    processes,
    program,
)


def use_tools(step: Callable[..., Any], model: object) -> None:
    """Give what each function returns to what takes that alone."""
    use_layout(layout(model))
    use_drawing(draw(model))
    use_drawing(draw(model, model))
    use_drawing(draw(program(step, model).communication[0]))
    use_program(program(step, model))
    assert_type(collectives(step, model), dict[str, int])
    assert_type(devices_of("v5p:8x8x16"), list[jax.Device])
    there: Machine = machine("h100:8x8", data=8, model=8)
    assert_type(there.mesh, jax.sharding.Mesh)
    assert_type(there.place([1]), list[int])
    assert_type(processes("train.py", "--steps", 3), list[Any])
    use_verdict(check(step, seconds=10))
    with raises(ValueError, "not even"):
        step(model)
    shardscope.layout_of(model)  # type: ignore[attr-defined]
    layout(model, 1)  # type: ignore[call-arg]


def use_layout(found: TreeLayout) -> None:
    """Read a layout, and catch what its methods raise."""
    array: LeafLayout = found["layers.0.kernel"]
    assert_type(array.shape, tuple[int, ...])
    findings: tuple[Finding, ...] = tuple(found.findings())
    assert_type([each.why for each in findings], list[str])
    try:
        found.match("layout.json")
    except LayoutMismatch as error:
        assert_type(str(error), str)


def use_drawing(drawing: Drawing) -> None:
    """Take the picture of a drawing."""
    assert_type(drawing.svg(), str)


def use_program(found: Program) -> None:
    """Read a program, and catch what its methods raise."""
    memory: Memory = found.memory
    assert_type(memory.arguments, int)
    each: Collective = found.communication[0]
    assert_type(each.axes, tuple[str, ...])
    try:
        found.within(collectives={"all-reduce": 1})
    except BudgetExceeded as error:
        assert_type(str(error), str)
    try:
        found.match("step.json", tolerance=0.1)
    except ProgramMismatch as error:
        assert_type(str(error), str)
    difference: Difference = found - found
    changes: tuple[Change, ...] = difference.changes
    assert_type([each.bytes for each in changes], list[int])
    arguments: tuple[Argument, ...] | None = found.arguments
    assert_type([each.donated for each in arguments or ()], list[bool])


def use_verdict(verdict: Verdict) -> None:
    """Read a verdict."""
    assert_type(verdict.right, bool)
    assert_type(verdict.status, str)
