"""Grade one attempt, in a process of its own."""

import importlib
import os
import re
import signal
import statistics
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
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
from shardbook.grading.environment import empty_if_larger
from shardbook.grading.measures import counted
from shardbook.grading.spies import replaced
from shardbook.grading.verdict import Verdict

_real_warn = warnings.warn


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
    problem: str,
    kind: str,
    source: str,
    name: str,
    devices: int = 8,
    seconds: float = 0.0,
) -> dict[str, Any]:
    """Grade an attempt; this process is its own, and ends with it.

    Args:
        problem: The name of the problem.
        kind: ``"file"``, or ``"pickle"`` for a function.
        source: The path of the file, or the pickled function in base 64.
        name: What to call it in the verdict.
        devices: How many devices to grade it on, 2 or more.
        seconds: How long it may take; 0 for as long as it needs.

    Returns:
        The verdict, as :meth:`shardbook.Verdict.as_json` gives it.
    """
    checks = _checks(problem, devices)
    verdict = Verdict(problem, name, "right")
    attempt, step = None, "callable"
    missing: dict[str, str] = {}
    remarks: list[tuple[str, str]] = []

    def failed(status: str, why: str, **more: str) -> Verdict:
        call, given = (attempt.call, attempt.given) if attempt else ("", "")
        return verdict.update(
            status=status,
            check=step,
            call=call,
            given=given,
            why=why,
            **more,
        )

    if kind == "file":
        # What is beside the attempt can be imported. It is last on the
        # path, so that a file called json.py is in no one's way.
        sys.path.append(os.path.dirname(source))
        sys.dont_write_bytecode = True
    try:
        with _time_limit(seconds), replaced(warnings, "warn", _warn):
            load = load_file if kind == "file" else load_pickle
            attempt = load(problem, source)
            attempt.find()
            for check in checks.CHECKS:
                step = check.name
                try:
                    check.run(attempt)
                except MissingInternal as error:
                    missing[step] = str(error)
                except (Crashed, Wrong) as error:
                    if step != "remark":
                        raise
                    section = getattr(error, "read", "")
                    remarks.append((str(error), section))
            step = "deprecated"
            _require_nothing_deprecated(attempt, checks)
            step = "comparison"
            try:
                compared, slow = _compare(attempt, checks.EXAMPLE)
                remarks += [(each, "") for each in slow]
                verdict = verdict.update(
                    compared=compared, remarks=tuple(remarks)
                )
            except MissingInternal as error:
                missing[step] = str(error)
    except NotWritten:
        why = "replace raise NotImplementedError by your code"
        return verdict.update(status="not written", why=why).as_json()
    except Crashed as error:
        sections = (
            section
            for pattern, section in checks.ERRORS
            if re.search(pattern, str(error))
        )
        verdict = failed("crashed", str(error), read=next(sections, ""))
    except Wrong as error:
        verdict = failed(
            "wrong",
            error.why,
            got=error.got,
            expected=error.expected,
            read=error.read,
        )
    except Exception as error:
        # Such as by a setting of jax that the attempt has changed.
        (line, *_) = str(error).splitlines() or [""]
        why = f"outside of your code: {type(error).__name__}: {line}"
        verdict = failed("crashed", why)
    if verdict.right and missing:
        verdict = verdict.update(
            status="incomplete",
            not_run=tuple(missing),
            why="; ".join(
                f"{name} did not run: {why}"
                for name, why in missing.items()
            ),
        )
    return verdict.as_json()


@contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """Raise an error where the attempt is when its time is up."""

    def end(*_: Any) -> None:
        raise TimeoutError(f"it took more than {seconds:g} s")

    if seconds:
        signal.signal(signal.SIGALRM, end)
        signal.setitimer(signal.ITIMER_REAL, seconds)
    yield
    if seconds:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _warn(message: Any, *rest: Any, **more: Any) -> None:
    """Warn; of a cache that jax can't read, empty it: jax never would."""
    if str(message).startswith("Error reading persistent compilation"):
        empty_if_larger(Path(jax.config.jax_compilation_cache_dir), -1)
    else:
        _real_warn(message, *rest, **more)


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


def _compare(
    attempt: Attempt, call: str
) -> tuple[dict[str, tuple[str, str]], list[str]]:
    """Measure what a right attempt does differently from the solution.

    Returns:
        The attempt's value and the solution's of each quantity, and a
        remark if the attempt is far slower.
    """
    both = (attempt, solution(attempt.problem))
    # Spelled as on_meshes does: what a check has compiled is known.
    case = Case(call, programs=True)
    yours, ours = (compiled(each, case) for each in both)
    seconds: tuple[list[float], list[float]] = ([], [])
    # In turns, for the machine may be busy now and then.
    for _ in range(4):
        for each, taken in zip(both, seconds, strict=True):
            start = time.perf_counter()
            each(call)
            taken.append(time.perf_counter() - start)
    # The first call may compile.
    mine, other = (1000 * statistics.median(taken[1:]) for taken in seconds)
    remarks = []
    if len(yours) > 2 * len(ours) + 5:
        remarks.append(
            f"it compiles {len(yours)} programs, the solution {len(ours)}: "
            "under jax.jit, a function is one program"
        )
    elif mine > 10 * other and mine > 100:
        remarks.append(
            f"a call takes {mine:.0f} ms, one of the solution {other:.0f} "
            "ms: see whether each call compiles anew"
        )
    return {
        "collectives": (counted(yours), counted(ours)),
        "bytes on a device": (_most_bytes(yours), _most_bytes(ours)),
    }, remarks


def _most_bytes(programs: Sequence[Program]) -> str:
    return f"{max((each.memory.total for each in programs), default=0):,}"
