"""Grade one attempt, in a process of its own."""

import importlib
import re
import statistics
import time
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import jax

from shardbook._program import Program
from shardbook.grading._jax_internals import MissingInternal
from shardbook.grading.attempt import (
    Attempt,
    Crashed,
    NotWritten,
    Wrong,
    load_file,
    load_pickle,
    solution,
)
from shardbook.grading.cases import Case, compiled
from shardbook.grading.measures import counted
from shardbook.grading.verdict import Verdict


def rehearse(problem: str, devices: int = 8) -> None:
    """Grade the solution, so that what it compiles is there for others.

    Args:
        problem: The name of the problem.
        devices: How many devices attempts will be graded on.
    """
    checks = _checks(problem, devices)
    # First, for it clears the caches.
    compiled(solution(problem), Case(checks.EXAMPLE, programs=True))
    for check in checks.CHECKS:
        check.run(solution(problem))


def grade(
    problem: str, kind: str, source: str, name: str, devices: int = 8
) -> dict[str, Any]:
    """Grade an attempt; this process is its own, and ends with it.

    Args:
        problem: The name of the problem.
        kind: ``"file"``, or ``"pickle"`` for a function.
        source: The path of the file, or the pickled function in base 64.
        name: What to call it in the verdict.
        devices: How many devices to grade it on, 2 or more.

    Returns:
        The verdict, as :meth:`shardbook.Verdict.as_json` gives it.
    """
    checks = _checks(problem, devices)
    started = time.monotonic()
    verdict = Verdict(problem, name, "right")
    attempt, step = None, "callable"
    missing: dict[str, str] = {}
    try:
        load = load_file if kind == "file" else load_pickle
        attempt = load(problem, source)
        attempt.find()
        for check in checks.CHECKS:
            step = check.name
            try:
                check.run(attempt)
            except MissingInternal as error:
                missing[step] = str(error)
        step = "deprecated"
        _require_nothing_deprecated(attempt, checks)
        try:
            compared = _compare(attempt, checks.EXAMPLE)
            verdict = verdict.update(compared=compared)
        except MissingInternal as error:
            missing["comparison"] = str(error)
    except NotWritten:
        verdict = verdict.update(
            status="not written",
            why="write your code in the place of raise NotImplementedError",
        )
    except Crashed as error:
        sections = (
            section
            for pattern, section in checks.ERRORS
            if re.search(pattern, str(error))
        )
        verdict = verdict.update(
            status="crashed",
            check=step,
            call=attempt.call if attempt else "",
            given=attempt.given if attempt else "",
            why=str(error),
            read=next(sections, ""),
        )
    except Wrong as error:
        verdict = verdict.update(
            status="wrong",
            check=step,
            call=attempt.call if attempt else "",
            given=attempt.given if attempt else "",
            why=error.why,
            got=error.got,
            expected=error.expected,
            read=error.read,
        )
    if verdict.right and missing:
        verdict = verdict.update(
            status="incomplete",
            not_run=tuple(missing),
            why="; ".join(
                f"{name} did not run: {why}"
                for name, why in missing.items()
            ),
        )
    seconds = time.monotonic() - started
    return verdict.update(seconds=round(seconds, 3)).as_json()


def _checks(problem: str, devices: int) -> ModuleType:
    """Set up the devices, if they are not yet, and find the checks."""
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", devices)
    return importlib.import_module(f"shardbook.checks.{problem}")


def _require_nothing_deprecated(
    attempt: Attempt, checks: ModuleType
) -> None:
    if attempt.deprecations:
        raise Wrong(
            "the result is right, by a route that jax or flax warns of",
            got=attempt.deprecations[0],
            expected="no DeprecationWarning",
            read=checks.DEPRECATED,
        )


def _compare(attempt: Attempt, call: str) -> dict[str, tuple[str, str]]:
    """Measure what a right attempt does differently from the solution."""
    both = (attempt, solution(attempt.problem))
    # Spelled as on_meshes does: what a check has compiled is known.
    case = Case(call, programs=True)
    yours, ours = (_summary(compiled(each, case)) for each in both)
    rows = {name: (yours[name], ours[name]) for name in yours}
    seconds: tuple[list[float], list[float]] = ([], [])
    # In turns, for the machine may be busy now and then.
    for _ in range(4):
        for each, taken in zip(both, seconds, strict=True):
            start = time.perf_counter()
            each(call)
            taken.append(time.perf_counter() - start)
    # The first call may compile.
    mine, other = (1000 * statistics.median(taken[1:]) for taken in seconds)
    return {**rows, "ms for a call": (f"{mine:.1f}", f"{other:.1f}")}


def _summary(programs: Sequence[Program]) -> dict[str, str]:
    most = max((each.memory.total for each in programs), default=0)
    return {
        "collectives": counted(programs),
        "bytes on a device": f"{most:,}",
        "programs compiled": str(len(programs)),
    }
