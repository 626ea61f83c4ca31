"""Call a step that an attempt returned again and again."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import jax

from shardgrade.grading._jax_internals import MissingInternal
from shardgrade.grading.attempt import Attempt, Wrong, arguments
from shardgrade.grading.cases import (
    Case,
    cache_case,
    leaves_by_path,
    observe,
)
from shardgrade.grading.note_programs import (
    note_compilations,
    note_if_shown,
)
from shardscope.programs.report import Program

T = TypeVar("T")


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
        noted = note_if_shown(stack)
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
