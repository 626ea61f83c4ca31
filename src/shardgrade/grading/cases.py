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
from shardgrade.grading._jax_internals import (
    MissingInternal,
    compilations,
    runs,
)
from shardgrade.grading.attempt import Attempt, Wrong, arguments
from shardscope.arrays.leaves import named_leaves
from shardscope.programs.program import program, report_call
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


# The second call takes what the first has left, and the third what all
# later ones take.
CALLS = 3


@dataclass(frozen=True, eq=False)
class Repeated:
    """What came of calling a returned step again and again.

    Attributes:
        results: What the calls returned.
        arguments: What each call was given, by position or by name, as the
            last has left it; under ``"then"`` that of the one more call.
        kept: The paths of the arrays that the arguments held at first, and
            that no call donated.
        programs: The programs that each call with the same arguments
            compiled, or why this version of jax does not show them.
    """

    results: list[Any]
    arguments: dict[str, Any]
    kept: list[str]
    programs: list[list[Program]] | MissingInternal


class Calls:
    """Calls of an attempt's step, and the programs that each compiled.

    Attributes:
        programs: The programs of each call, in order.
    """

    def __init__(self, attempt: Attempt, noted: list[Program]) -> None:
        """Begin, with a list to which all programs are added."""
        self._attempt, self._noted = attempt, noted
        self.programs: list[list[Program]] = []

    def __call__(self, step: Callable[..., T], *args: Any, **kw: Any) -> T:
        """Make a call, and wait for its result."""
        before = len(self._noted)
        with self._attempt.running():
            result = step(*args, **kw)
            jax.block_until_ready(result)
        self.programs.append(self._noted[before:])
        return result


@contextmanager
def note_calls(attempt: Attempt) -> Iterator[Calls]:
    """Give what makes the calls of an attempt's step."""
    with note_compilations() as noted:
        yield Calls(attempt, noted)


def require_alive(tree: Any) -> None:
    """Require that a call has deleted nothing that the next one needs.

    Another call with it would end the process in jax 0.10.2.
    """
    if lost := paths_by_deletion(leaves_by_path(tree), deleted=True):
        raise Wrong(
            "a call donated what it was given, and did not replace it, so "
            "there can be no second call",
            got=f"deleted: {', '.join(lost)}",
            expected="no array that is deleted",
            read="Problem",
        )


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
                programs = _noted(stack)
            if case.values:
                spy = spies.values_in(attempt.filename, values)
                stack.enter_context(spy)
            yield

    with case.under() as noted:
        result = attempt(case.call, case.given, watched())
    return Seen(
        attempt, case, attempt.arguments, result, noted, values, programs
    )


@cache_case
def repeat_step(attempt: Attempt, case: Case) -> Repeated:
    """Call the step of a case a few times, and then once with others.

    Raises:
        Wrong: If a call leaves an array of its arguments deleted.
    """
    step = observe(attempt, case).result
    codes = filter(None, (case.step, case.then))
    (positional, named), *others = (
        each for code in codes for each in arguments(f"step({code})")
    )
    attempt.name_call(case.code, case.given)
    given = _by_position(positional) | named
    held = leaves_by_path(given)
    results: list[Any] = []
    with ExitStack() as stack:
        noted = _noted(stack)
        call = Calls(attempt, noted if isinstance(noted, list) else [])
        stack.enter_context(case.under())
        for _ in range(CALLS):
            result = call(step, *positional, **named)
            # What is carried on may be donated.
            results.append(jax.device_get(result) if case.carry else result)
            if case.carry:
                positional = [result[0], *positional[1:]]
                given = _by_position(positional)
            require_alive(given)
        programs = call.programs[:]
        for other, more in others:
            results.append(call(step, *other, **more))
            given["then"] = _by_position(other) | more
    kept = paths_by_deletion(held, deleted=False)
    shown = noted if isinstance(noted, MissingInternal) else programs
    return Repeated(results, given, kept, shown)


def _by_position(arguments: list[Any]) -> dict[str, Any]:
    return {str(i): each for i, each in enumerate(arguments)}


def paths_by_deletion(
    arrays: dict[str, Any], *, deleted: bool
) -> list[str]:
    """Name the arrays that are deleted, or those that are not."""
    return [
        path
        for path, array in arrays.items()
        if isinstance(array, jax.Array) and array.is_deleted() == deleted
    ]


def leaves_by_path(tree: Any) -> dict[str, Any]:
    """Give the leaves of a tree by their names; what is twice, once."""
    return dict(named_leaves(tree))


def compile_and_run(
    attempt: Attempt, function: Callable[..., Any], *args: Any
) -> tuple[Any, Program]:
    """Compile a function that calls the attempt, and call it once.

    Args:
        attempt: What the function calls.
        function: What to compile under ``jax.jit``.
        *args: Its arguments.

    Returns:
        What the call returned, and the program.
    """
    with attempt.running():
        executable = jax.jit(function).lower(*args).compile()
        result = jax.block_until_ready(executable(*args))
    return result, program(executable)


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


def _noted(stack: ExitStack) -> list[Program] | MissingInternal:
    """Note each program that is compiled, if this jax shows them."""
    try:
        return stack.enter_context(note_compilations())
    except MissingInternal as error:
        return error


@contextmanager
def note_compilations() -> Iterator[list[Program]]:
    """Give each program that is compiled, whatever was compiled before."""
    seen: list[Program] = []

    with compilations(lambda each: seen.append(_program_of(each))):
        # A program that is compiled already would not be seen.
        jax.clear_caches()
        yield seen


@contextmanager
def note_runs() -> Iterator[list[Program]]:
    """Give each program that is run, as often as it is run.

    One that the attempt has compiled by ``lower().compile()`` is given
    once.
    """
    seen: list[Program] = []
    program_of = cache(_program_of)
    with runs(lambda each: seen.append(program_of(each))):
        # A function that has run already would take its shortcut.
        jax.clear_caches()
        yield seen


def _program_of(executable: Any) -> Program:
    text = "\n".join(m.to_string() for m in executable.hlo_modules())
    return Program.of(text, executable.get_compiled_memory_stats())


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
