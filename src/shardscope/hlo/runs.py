"""What a call of a compiled program runs, and how often."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from shardscope.hlo.loops import trips_of
from shardscope.hlo.text import Computation, Instruction, Module


@dataclass(frozen=True)
class Run:
    """An instruction that a call runs.

    Attributes:
        instruction: The instruction.
        within: The name of its computation.
        callers: The instructions that call this computation, each with
            the name of the computation that it is in, innermost first.
        times: How often a call runs it.
        counted: Whether the program says how often: not in a branch, nor
            in a loop whose end depends on data.
        bounded: Whether it runs at most ``times`` times: not in a loop
            whose end depends on data.
    """

    instruction: Instruction
    within: str
    callers: tuple[tuple[str, Instruction], ...] = ()
    times: int = 1
    counted: bool = True
    bounded: bool = True

    @property
    def origin(self) -> Instruction:
        """The innermost that says where it comes from: it, or a caller."""
        outwards = [self.instruction, *(each for _, each in self.callers)]
        named = (each for each in outwards if each.op_name)
        return next(named, outwards[-1])


def runs_of(
    module: Module, is_wanted: Callable[[Instruction], bool]
) -> list[Run]:
    """Find the wanted instructions that a call runs, through all calls.

    Args:
        module: The program.
        is_wanted: Tells whether an instruction is wanted. What a wanted
            one calls is not looked at.
    """
    computations = module.computations

    @cache
    def within(name: str) -> list[Run]:
        found: list[Run] = []
        caller = computations.get(name, {})
        for each in caller.values():
            if is_wanted(each):
                found.append(Run(each, name))
                continue
            called = each.called
            if inner := [run for other in called for run in within(other)]:
                found += _repeated(inner, each, name, caller)
        return found

    def _repeated(
        inner: list[Run],
        by: Instruction,
        name: str,
        caller: Computation,
    ) -> list[Run]:
        is_loop = by.opcode == "while"
        trips = trips_of(by, caller, computations) if is_loop else 1
        # Of a conditional only one branch runs.
        counted = trips is not None and by.opcode != "conditional"
        return [
            Run(
                run.instruction,
                run.within,
                (*run.callers, (name, by)),
                run.times * (1 if trips is None else trips),
                run.counted and counted,
                run.bounded and trips is not None,
            )
            for run in inner
        ]

    return within(module.entry)
