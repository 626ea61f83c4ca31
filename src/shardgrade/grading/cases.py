"""Make the calls that a check asks for, each once."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import (
    AbstractContextManager,
    ExitStack,
    contextmanager,
    nullcontext,
)
from dataclasses import dataclass, replace
from functools import cache, wraps
from typing import Any, TypeVar

import jax

from shardgrade.grading import spies
from shardgrade.grading._jax_internals import MissingInternal
from shardgrade.grading.attempt import Attempt, arguments
from shardgrade.grading.note_programs import note_if_shown
from shardscope.arrays.leaves import named_leaves
from shardscope.programs.program import report_call
from shardscope.programs.report import Program

T = TypeVar("T")


@dataclass(frozen=True)
class Case:
    """A call to grade.

    Attributes:
        call: The call as code: ``"double(normal(8), mesh_of(2, 4))"``.
        given: What is altered around it, in words.
        under: Makes the context in which it is altered, for the attempt
            and the solution alike.
        step: For a problem that returns a step, the arguments of the step,
            as code: ``"mlp_params(4, 8, 4), normal(8, 4)"``. The step is
            compiled for them, and run if a measure asks for it.
        then: The arguments of one more call of the step, after the others:
            none of them was in a call before.
        carry: Whether the first that the step returns takes the place of
            its first argument in the next call.
        values: Whether to note what the attempt's variables hold.
        programs: Whether to note the programs that the call compiles.
    """

    call: str
    given: str = ""
    under: Callable[[], AbstractContextManager[Any]] = nullcontext
    step: str = ""
    then: str = ""
    carry: bool = False
    values: bool = False
    programs: bool = False

    @property
    def code(self) -> str:
        """All of it as code, with the call of the step."""
        return f"{self.call}({self.step})" if self.step else self.call


@dataclass(frozen=True, eq=False)
class Seen:
    """What came of a call.

    Attributes:
        attempt: What was called.
        case: The call.
        arguments: Its positional arguments, as the call has left them.
        result: What it returned.
        noted: What the context of the case gave, such as what a spy saw.
        values: What the variables of the attempt's functions held as the
            functions returned, and what they returned.
        programs: The programs that were compiled, if the case asks for
            them, or why this version of jax does not show them.
    """

    attempt: Attempt
    case: Case
    arguments: list[Any]
    result: Any
    noted: Any
    values: list[Any]
    programs: list[Program] | MissingInternal | None


def cache_case(
    function: Callable[[Attempt, Case], T],
) -> Callable[[Attempt, Case], T]:
    """Call a function once for an attempt and a case."""

    @wraps(function)
    def call(attempt: Attempt, case: Case) -> T:
        key = (function, case)
        if key not in attempt.seen:
            attempt.seen[key] = function(attempt, case)
        found: T = attempt.seen[key]
        return found

    return call


def measure_made(
    make: Callable[[Attempt, Case], T], measure: Callable[[T], Any]
) -> Callable[[Seen], Any]:
    """Give the function that measures what is made of a call.

    Args:
        make: Makes it, once, of an attempt and a case.
        measure: What must agree of it.
    """
    return lambda seen: measure(make(seen.attempt, seen.case))


@cache_case
def make_arguments(attempt: Attempt, case: Case) -> list[Any]:
    """Make the positional arguments of a case's call, the last if several.

    They are for calls of a check's own, which must not donate them.
    """
    named = {attempt.problem: attempt.function}
    positional, _ = arguments(case.call, **named)[-1]
    return positional


@cache_case
def observe(attempt: Attempt, case: Case) -> Seen:
    """Make a call, once, and note what came back."""
    # The context may take an error for an answer.
    result = None
    values: list[Any] = []
    programs: list[Program] | MissingInternal | None = None

    @contextmanager
    def watched() -> Iterator[None]:
        nonlocal programs
        with ExitStack() as stack:
            if case.programs:
                programs = note_if_shown(stack)
            if case.values:
                spy = spies.values_in(attempt.filename, values)
                stack.enter_context(spy)
            yield

    with case.under() as noted:
        result = attempt(case.call, case.given, watched())
    return Seen(
        attempt, case, attempt.arguments, result, noted, values, programs
    )


def leaves_by_path(tree: Any) -> dict[str, Any]:
    """Give the leaves of a tree by their names; what is twice, once."""
    return dict(named_leaves(tree))


@cache_case
def compiled_programs(attempt: Attempt, case: Case) -> Sequence[Program]:
    """Give the programs of a call: of a step, or all that it compiles.

    Raises:
        MissingInternal: If they can't be seen in this version of jax.
    """
    if case.step:
        step = observe(attempt, case).result
        ((positional, named),) = arguments(f"step({case.step})")
        attempt.name_call(case.code, case.given)
        with case.under(), attempt.running():
            # A verdict names no line of a program.
            return [
                report_call(step, tuple(positional), named, any_lines=True)
            ]
    noted = observe(attempt, replace(case, programs=True)).programs
    if isinstance(noted, MissingInternal):
        raise noted
    return noted or []


@cache
def without_jit(case: Case) -> Case:
    """Give the same case with jit disabled: inside it are no arrays."""

    @contextmanager
    def under() -> Iterator[Any]:
        with jax.disable_jit(), case.under() as noted:
            yield noted

    return replace(case, under=under)


def on_meshes(
    *calls: str, step: str = "", then: str = "", **more: Any
) -> list[Case]:
    """Give each call a case for some meshes of all devices.

    Args:
        *calls: Calls as code, with ``{mesh}`` for the mesh.
        step: The arguments of the step that they return, in the same way.
        then: Those of one more call of the step.
        **more: What else the cases have.

    Returns:
        On eight devices the cases of 2 by 4, 8 by 1 and 1 by 8; on two
        those of 2 by 1 and 1 by 2. All meshes of a call come before the
        next call.
    """
    count = jax.device_count()
    shapes = [(2, count // 2)] if count >= 4 else []
    shapes += [(count, 1), (1, count)]
    meshes = [f"mesh_of({data}, {model})" for data, model in shapes]
    return [
        Case(
            call.replace("{mesh}", mesh),
            step=step.replace("{mesh}", mesh),
            then=then.replace("{mesh}", mesh),
            **more,
        )
        for call in calls
        for mesh in meshes
    ]
