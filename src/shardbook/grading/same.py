"""Declare what must be the same for an attempt and for the solution.

A check names the calls to make and what must agree. The solution is the
oracle: what is altered around a call is altered for it too, so that no
check computes by hand what is expected.
"""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import numpy as np

from shardbook.grading import measures
from shardbook.grading.attempt import Attempt, Wrong, arguments, solution
from shardbook.grading.cases import Case, Seen, observe
from shardbook.grading.measures import (
    NEAR,
    is_array,
    leaves,
    numbers,
    show,
    show_both,
    show_number,
)

# How many numbers, or lines that are alike, a verdict shows.
_FEW = 8


@dataclass(frozen=True)
class Check:
    """A part of what a right answer must show.

    Attributes:
        name: ``"contract"``, ``"values"``, ``"structure"``,
            ``"placement"`` or ``"communication"``; or ``"remark"``, which
            refuses nothing, but is said of an attempt that is right.
        run: Raises Wrong for an attempt that does not show it.
    """

    name: str
    run: Callable[[Attempt], None]


@dataclass(frozen=True)
class Rival:
    """A known wrong answer, with a sentence of its own.

    Attributes:
        answer: Takes the arguments of the attempt; for a problem that
            returns a step, it returns another.
        why: What is wrong with it.
        read: The section of the page to read.
    """

    answer: Callable[..., Any]
    why: str
    read: str


@dataclass(frozen=True)
class AtMost:
    """Let a number be up to so many times the solution's.

    Attributes:
        times: How many times.
        unit: What is counted, as in ``"bytes on a device"``.
    """

    times: float
    unit: str

    def __call__(self, got: float, expected: float) -> bool:
        """Tell whether a number is within the limit."""
        return got <= self.times * expected

    def words(self, got: float, expected: float) -> tuple[str, str]:
        """Write what was counted, and the limit."""
        limit = int(self.times * expected)
        return f"{got:,} {self.unit}", f"at most {limit:,} {self.unit}"


def declare(
    check: str,
    cases: Case | str | Iterable[Case | str],
    of: Callable[[Seen], Any],
    why: str,
    read: str = "Problem",
    *rivals: Rival,
    agree: Callable[[Any, Any], bool] | None = None,
    under: Callable[[], AbstractContextManager[Any]] | None = None,
) -> Check:
    """Declare that something must be the same as for the solution.

    Args:
        check: The name of the check that this is a part of.
        cases: The calls to make; code alone is a case that alters nothing.
        of: What must agree, of what came of a call: an array, a tree or a
            text.
        why: What it means if it does not.
        read: The section of the page to read then.
        *rivals: Wrong answers that are known.
        agree: Tells whether the attempt's and the solution's agree, as
            an :class:`AtMost` does. Without it, numbers do if they are
            nearly the same, and all else if it is equal.
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

    def run(attempt: Attempt) -> None:
        for case in calls:
            found = of(observe(attempt, case))
            wanted = of(observe(solution(attempt.problem), case))
            if agree(found, wanted):
                continue
            reason, section = why, read
            for rival in rivals:
                answer: Any = rival.answer
                for positional, named in arguments(case.call):
                    answer = answer(*positional, **named)
                if agree(found, answer):
                    reason, section = rival.why, rival.read
                    break
            attempt.name_call(case.code, case.given)
            words = (
                agree.words if isinstance(agree, AtMost) else _difference
            )
            got, expected = words(found, wanted)
            raise Wrong(reason, got=got, expected=expected, read=section)

    return Check(check, run)


# A part of each of these checks.
contract = partial(declare, "contract")
values = partial(declare, "values")
structure = partial(declare, "structure")
placement = partial(declare, "placement")
communication = partial(declare, "communication")
remark = partial(declare, "remark")


def types(cases: Case | str | Iterable[Case | str]) -> Check:
    """Declare that trees, dtypes and shapes of results must agree."""
    why = "the result has another type, dtype or shape"
    return contract(cases, measures.types, why)


def refusal(
    calls: Case | str | Iterable[Case | str],
    why: str,
    read: str = "Problem",
    *,
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
    return contract(calls, words, why, read, under=measures.errors)


def is_close(got: Any, expected: Any) -> bool:
    """Tell whether two trees agree: numbers nearly, all else exactly."""
    found, wanted = leaves(got), leaves(expected)
    return found.keys() == wanted.keys() and all(
        _is_close(found[path], wanted[path]) for path in wanted
    )


def _is_close(got: Any, expected: Any) -> bool:
    got, expected = numbers(got), numbers(expected)
    if not is_array(expected):
        return type(got) is type(expected) and bool(got == expected)
    if isinstance(got, jax.ShapeDtypeStruct):
        return False
    return np.shape(got) == expected.shape and np.allclose(
        got, expected, **NEAR
    )


def _difference(found: Any, wanted: Any) -> tuple[str, str]:
    """Write both sides: a few numbers in lines, else what differs first."""
    if isinstance(found, str) and isinstance(wanted, str):
        found, wanted = _from_difference(found, wanted)
    got, expected = _entries(found), _entries(wanted)
    if got.keys() != expected.keys():
        return show(found), show(wanted)
    if len(expected) <= _FEW and all(
        np.ndim(leaf) == 0 and "\n" not in str(leaf)
        for leaf in (*expected.values(), *got.values())
    ):
        return _lines(got, expected)
    for path, leaf in expected.items():
        if not _is_close(got[path], leaf):
            left, right = show_both(got[path], leaf)
            return f"{path} {left}".strip(), f"{path} {right}".strip()
    return show(found), show(wanted)


def _from_difference(found: str, wanted: str) -> tuple[str, str]:
    """Leave out the lines before the first that differs, if many are."""
    got, expected = found.splitlines(), wanted.splitlines()
    pairs = enumerate(zip(got, expected, strict=False))
    same = next((i for i, (a, b) in pairs if a != b), 0)
    if same < _FEW:
        return found, wanted
    return (
        "\n".join(["...", *got[same:]]),
        "\n".join(["...", *expected[same:]]),
    )


def _entries(tree: Any) -> dict[str, Any]:
    """Give the leaves of a tree, or the entries of a short array."""
    if is_array(tree) and tree.ndim == 1 and 1 < tree.size <= _FEW:
        return {f"[{i}]": tree[i, ...] for i in range(tree.size)}
    return leaves(tree)


def _lines(
    got: dict[str, Any], expected: dict[str, Any]
) -> tuple[str, str]:
    """Write values in lines, which are the same where the values agree."""
    names = [
        path.strip("[']") if "'" in path else path for path in expected
    ]
    width = max(map(len, names), default=0)
    pairs = []
    for name, (path, leaf) in zip(names, expected.items(), strict=True):
        pair = show_number(got[path]), show_number(leaf)
        if _is_close(got[path], leaf):
            pair = pair[1], pair[1]
        elif pair[0] == pair[1] or len(expected) == 1:
            pair = show(got[path]), show(leaf)
        pairs.append([f"{name:{width}} {each}".strip() for each in pair])
    left, right = zip(*pairs, strict=True)
    return "\n".join(left), "\n".join(right)


def within(found: str, wanted: str) -> bool:
    """Tell whether each line of a text is one of another text too."""
    return set(found.splitlines()) <= set(wanted.splitlines())
