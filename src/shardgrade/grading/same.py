"""Declare what must be the same for an attempt and for the solution.

A check names the calls to make and what must agree. The solution is the
oracle: what is altered around a call is altered for it too, so that no
check computes by hand what is expected.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

from shardgrade.grading import measures
from shardgrade.grading.agreement import (
    FLOPS as FLOPS,
    HELD as HELD,
    SENT as SENT,
    AtLeast as AtLeast,
    AtMost as AtMost,
    Limited as Limited,
    Near as Near,
    within as within,
)
from shardgrade.grading.attempt import (
    Attempt as Attempt,
    Crashed as Crashed,
    NotWritten as NotWritten,
    Wrong as Wrong,
    arguments as arguments,
    solution as solution,
)
from shardgrade.grading.cases import (
    Case as Case,
    Seen as Seen,
    cache_case as cache_case,
    compiled_programs as compiled_programs,
    leaves_by_path as leaves_by_path,
    make_arguments as make_arguments,
    measure_made as measure_made,
    observe as observe,
    on_meshes as on_meshes,
    without_jit as without_jit,
)
from shardgrade.grading.differences import (
    copies_apart,
    difference,
    is_close as is_close,
    leaves as leaves,
    trained_apart as trained_apart,
    type_of as type_of,
)
from shardgrade.grading.mistakes import name_mistake
from shardgrade.grading.note_programs import (
    compile_and_run as compile_and_run,
)
from shardgrade.grading.repeat_step import (
    note_calls as note_calls,
    paths_by_deletion as paths_by_deletion,
    require_alive as require_alive,
)
from shardgrade.grading.surplus import describe_surplus
from shardgrade.grading.wrong_arrays import (
    describe_layouts,
    describe_wrong_arrays,
)

SAME_ERROR = "The solution raises the same error with this mistake: "


@dataclass(frozen=True)
class Check:
    """A part of what a right answer must show.

    Attributes:
        kind: ``"contract"``, ``"values"``, ``"structure"``,
            ``"placement"``, ``"memory"`` or ``"communication"``; or
            ``"remark"``, which refuses nothing, but is said of an attempt
            that is right.
        cases: The calls that must show it.
        run: Raises Wrong for an attempt that does not show it in a case.
        read: The heading that a verdict of this part names.
    """

    kind: str
    cases: Sequence[Case]
    run: Callable[[Attempt, Case], None]
    read: str


def declare(
    kind: str,
    cases: Case | str | Iterable[Case | str],
    of: Callable[[Seen], Any],
    why: str,
    *,
    read: str = "Problem",
    agree: Callable[[Any, Any], bool] | None = None,
    under: Callable[[], AbstractContextManager[Any]] | None = None,
) -> Check:
    """Declare that something must be the same as for the solution.

    Args:
        kind: What it is a part of, such as ``"values"``.
        cases: The calls to make; code alone is a case that alters nothing.
        of: What must agree, of what came of a call: an array, a tree or a
            text; or a :class:`~shardgrade.grading.agreement.Limited`, for
            which the solution isn't called.
        why: What it means if it does not.
        read: The section of the page to read then.
        agree: Tells whether the attempt's and the solution's agree, such
            as an :class:`~shardgrade.grading.agreement.AtMost`. Without it,
            numbers do if they are nearly the same, and all else if it is
            equal.
        under: Makes the context of the calls, in the place of their own.

    Returns:
        The check.
    """
    agree = agree or is_close
    if isinstance(cases, Case | str):
        cases = [cases]
    calls = [
        each if isinstance(each, Case) else Case(each) for each in cases
    ]
    if under:
        calls = [replace(each, under=under) for each in calls]

    def give(case: Case, each: Attempt) -> Any:
        try:
            return of(observe(each, case))
        except Crashed as crash:
            words = str(crash).partition("\n(line ")[0]
            # jax may name the line of the solution, or of the attempt.
            return re.sub(r"\S+\.py:\d+:\d+ \(\S+\)", "", words)

    def run(attempt: Attempt, case: Case) -> None:
        def passes(each: Any) -> bool:
            if isinstance(each, Limited):
                return not each.exceeded
            return agree(each, wanted)

        gives = [cache(partial(give, one)) for one in (case, *calls)]
        try:
            seen = observe(attempt, case)
            found = of(seen)
        except Crashed as crash:
            if same := name_mistake(attempt, "crash", gives[:1], agree):
                crash.args = (f"{crash}\n{SAME_ERROR}{same.says}",)
                crash.read = same.read
            raise
        limited = isinstance(found, Limited)
        if limited and passes(found):
            return
        theirs = observe(solution(attempt.problem), case)
        wanted = of(theirs)
        if not limited and passes(found):
            where = copies_apart(found) if kind == "values" else ""
            if not where:
                return
            attempt.name_call(case.code, case.given)
            raise Wrong(
                "the numbers are right on one device, but other devices "
                "have other numbers where they should have a copy. JAX "
                "doesn't compare copies, and NumPy reads only one",
                got=f"another copy: {where}",
                expected="the same copy on each device",
                read=read,
            )
        reason, section = why, read
        if mistake := name_mistake(attempt, kind, gives, agree):
            reason, section = mistake.says, mistake.read or read
        elif kind == "values":
            reason += describe_wrong_arrays(found, wanted, agree)
        elif kind in ("placement", "memory", "communication"):
            reason += describe_layouts(found, wanted) or describe_surplus(
                of, passes, seen, theirs
            )
        attempt.name_call(case.code, case.given)
        words = getattr(agree, "words", difference)
        got, expected = found.words() if limited else words(found, wanted)
        raise Wrong(reason, got=got, expected=expected, read=section)

    return Check(kind, calls, run, read)


def numbered(name: str) -> Callable[[Iterable[Check]], dict[str, Check]]:
    """Give what names checks that differ in a detail: ``sent_1``."""
    return lambda checks: {
        f"{name}_{i}": each for i, each in enumerate(checks, 1)
    }


# A part of each of these checks.
contract = partial(declare, "contract")
values = partial(declare, "values")
structure = partial(declare, "structure")
placement = partial(declare, "placement")
memory = partial(declare, "memory")
communication = partial(declare, "communication")
remark = partial(declare, "remark")


def types(cases: Case | str | Iterable[Case | str]) -> Check:
    """Declare that trees, dtypes and shapes of results must agree."""
    why = "the result has another type, dtype or shape"
    return contract(cases, measures.types, why)


def refusal(
    calls: Case | str | Iterable[Case | str],
    why: str,
    *,
    read: str = "Problem",
    names: str = "",
    never: str = "",
    kind: type[Exception] = ValueError,
) -> Check:
    """Declare that calls must raise an error, as they do for the solution.

    Args:
        calls: The calls to make.
        why: What it means if one raises no error, or another.
        read: The section of the page to read then.
        names: What the message must name, with spaces between.
        never: What it must not name, with spaces between.
        kind: The class that the error must have.

    Returns:
        The check.
    """
    words = measures.refusal(*names.split(), never=never.split(), kind=kind)
    return contract(
        calls, words, why, read=read, under=measures.note_errors
    )
