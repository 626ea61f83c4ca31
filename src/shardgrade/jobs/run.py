"""Grade one attempt, in a process of its own."""

import importlib
import os
import re
import signal
import statistics
import sys
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import count
from types import ModuleType
from typing import Any

import jax

from shardbook import book
from shardgrade.grading._jax_internals import MissingInternal
from shardgrade.grading.attempt import (
    Attempt,
    Crashed,
    NotWritten,
    TimeIsUp,
    Wrong,
    line_of,
    load_file,
    load_pickle,
    solution,
)
from shardgrade.grading.cases import Case, compiled_programs
from shardgrade.grading.measures import quantities
from shardgrade.grading.progress import tell
from shardgrade.grading.same import Check
from shardgrade.grading.spies import replaced
from shardgrade.grading.verdict import Verdict
from shardgrade.jobs.environment import forget_programs
from shardgrade.jobs.supervisor import LIMITS
from shardgrade.jobs.task import Task

_real_warn = warnings.warn
_Config = type(jax.config)
_real_update: Any = _Config.update
# In an error, what a reader finds in the section "The API"; other errors of
# their own code lead to "Problem".
CALLS_OF_THE_API = (
    "varying|replicat|vma|axis name|unbound|sharding|mesh|[Hh]ashable"
    "|einsum|dot_general|contract|broadcast|shape|has no attribute|State"
)
# How many milliseconds a call may take, however long the solution's takes.
SLOW = 100


def rehearse(problem: str, devices: int = 8) -> None:
    """Grade the solution, so that what it compiles is there for others.

    Args:
        problem: The name of the problem.
        devices: How many devices attempts will be graded on.
    """
    checks = _checks(problem, devices)
    compiled_programs(
        solution(problem), Case(checks.EXAMPLE, programs=True)
    )
    for check in checks.CHECKS.values():
        for case in check.cases:
            check.run(solution(problem), case)


def grade(task: Task) -> Verdict:
    """Grade an attempt; this process is its own, and ends with it.

    Args:
        task: The attempt. The checks for the other number of devices run
            if it has passed those for the usual one.

    Returns:
        The verdict.
    """
    problem, given = task.problem, task.attempt
    checks, elsewhere = _checks(problem, task.devices), bool(task.passed)
    todo = checks.ELSEWHERE if elsewhere else checks.CHECKS
    where = f" on {task.devices} devices" * elsewhere
    right = Verdict(problem, task.source, "right")
    filename = "" if isinstance(given, bytes) else str(given)
    if filename:
        # What is beside the attempt can be imported. It is last on the
        # path, so that a file called json.py is in no one's way.
        sys.path.append(os.path.dirname(filename))
        sys.dont_write_bytecode = True
    attempt, at = None, _At("callable")
    try:
        with limits(task.limits.seconds), replaced(warnings, "warn", _warn):
            if isinstance(given, bytes):
                attempt = load_pickle(problem, given)
            else:
                with replaced(_Config, "update", _update):
                    attempt = load_file(problem, filename)
            attempt.find()
            missing, remarks = _check(attempt, todo, where, at)
            at.check, at.name, at.case = "deprecated", "", ""
            if attempt.deprecations:
                raise Wrong(
                    "the result is right, by a route that jax or flax "
                    "warns of",
                    got=attempt.deprecations[0],
                    expected="no DeprecationWarning",
                    read=getattr(checks, "DEPRECATED", "Sources"),
                )
            compared: dict[str, tuple[str, str]] = {}
            if not elsewhere:
                tell("comparing with the solution")
                at.check = "comparison"
                try:
                    compared, slow = _compare(attempt, checks)
                    remarks += slow
                except MissingInternal as error:
                    missing[at.check] = str(error)
        verdict = right.update(compared=compared, remarks=(*remarks,))
        if missing:
            verdict = verdict.update(
                status="incomplete",
                not_run=tuple(missing),
                why="; ".join(
                    f"{name} did not run: {why}"
                    for name, why in missing.items()
                ),
            )
        return verdict
    except NotWritten:
        why = "replace raise NotImplementedError with your code"
        return right.update(status="not written", why=why)
    except TimeIsUp as error:
        # As it is loaded, there is no attempt to ask.
        line = line_of(error, attempt.filename if attempt else filename)
        why = (
            f"it {error}\n(line {line})" if line else f"grading it {error}"
        )
        failed = right.update(status="crashed", why=why)
    except Exception as error:
        failed = right.update(**_failure(error, checks))
    if attempt:
        failed = failed.update(call=attempt.call, given=attempt.given)
    return failed.update(check=at.check, name=at.name, case=at.case)


def other_devices(problem: str) -> int:
    """Give the number of devices to grade on next; 0 if there is none."""
    checks = importlib.import_module(f"shardgrade.checks.{problem}")
    return getattr(checks, "OTHER_DEVICES", 0)


@dataclass
class _At:
    """How far the grading has come.

    Attributes:
        check: The kind of the check.
        name: Its name.
        case: The number of the case, of how many.
    """

    check: str
    name: str = ""
    case: str = ""


def _check(
    attempt: Attempt, todo: Mapping[str, Check], where: str, at: _At
) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """Run checks up to the first that fails.

    Returns:
        The checks that could not run, each with the reason, and remarks.
    """
    missing: dict[str, str] = {}
    remarks: list[tuple[str, str]] = []
    numbers = count(1)
    cases = sum(len(check.cases) for check in todo.values())
    for name, check in todo.items():
        at.check, at.name = check.kind, name
        of_check = [(next(numbers), case) for case in check.cases]
        try:
            for number, case in of_check:
                at.case = f"{number} of {cases}{where}"
                tell(f"case {at.case}")
                check.run(attempt, case)
        except MissingInternal as error:
            missing[check.kind] = str(error)
        except (Crashed, Wrong) as error:
            if check.kind != "remark":
                raise
            remarks.append((str(error), getattr(error, "read", "")))
    return missing, remarks


def _failure(error: Exception, checks: ModuleType) -> dict[str, str]:
    """Say what is wrong with an attempt, and what to read."""
    words = str(error)
    if isinstance(error, Wrong):
        # Not vars(): jax may have added a note.
        return {"status": "wrong", **asdict(error)}
    if not isinstance(error, Crashed):
        # Such as by a setting of jax that the attempt has changed.
        line = words.partition("\n")[0]
        words = f"outside of your code: {type(error).__name__}: {line}"
    # No section is about a line that Python can't read.
    unread = isinstance(getattr(error, "error", None), SyntaxError)
    found = getattr(error, "read", "") or _section(words, checks)
    read = "" if unread else found
    return {"status": "crashed", "why": words, "read": read}


def _section(words: str, checks: ModuleType) -> str:
    """Name what to read of an error: the check knows, the guide, or we."""
    for pattern, section in getattr(checks, "ERRORS", ()):
        if re.search(pattern, words):
            return str(section)
    if found := book.explained(words):
        return found
    problem = checks.__name__.rpartition(".")[2]
    calls = re.search(CALLS_OF_THE_API, words)
    if calls and "The API" in book.headings(problem):
        return "The API"
    return "Problem"


@contextmanager
def limits(seconds: float) -> Iterator[None]:
    """Raise an error where the attempt is when it exceeds a limit."""

    def end(number: int, _: Any) -> None:
        raise TimeIsUp(LIMITS[signal.Signals(number)].format(seconds))

    before = {number: signal.signal(number, end) for number in LIMITS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _warn(message: Any, *rest: Any, **more: Any) -> None:
    """Warn; but of a program in the cache that jax can't read, empty it.

    A process that was ended may have written half of a program. jax would
    compile it each time, and never write it again.
    """
    if str(message).startswith("Error reading persistent compilation"):
        forget_programs(os.environ["JAX_COMPILATION_CACHE_DIR"])
    else:
        _real_warn(message, *rest, **more)


def _update(self: Any, name: str, value: Any) -> None:
    """Set what a file sets as it is loaded, but never the devices.

    Each page begins with eight of them, and here may be four or twelve.
    """
    if name != "jax_num_cpu_devices":
        _real_update(self, name, value)


def _checks(problem: str, devices: int) -> ModuleType:
    """Set up the devices, if they are not yet, and find the checks."""
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", devices)
    return importlib.import_module(f"shardgrade.checks.{problem}")


def _compare(
    attempt: Attempt, checks: ModuleType
) -> tuple[dict[str, tuple[str, str]], list[tuple[str, str]]]:
    """Compare a right attempt with the solution; remark if it is slow."""
    both = (attempt, solution(attempt.problem))
    if measure := getattr(checks, "quantities", None):
        return _pairs(*map(measure, both)), []
    # Spelled as on_meshes does: what a check has compiled is known.
    case = Case(checks.EXAMPLE, programs=True)
    yours, ours = (compiled_programs(each, case) for each in both)
    words = ""
    if len(yours) > 2 * len(ours) + 5:
        words = (
            f"outside of jax.jit, a call compiles {len(yours)} programs, "
            f"the solution's {len(ours)}: put jax.jit around what you "
            "compute, such as a shard_map, to make it one program"
        )
    # Each of several processes measures its own time, and one that calls
    # again while the others don't would wait for them.
    elif jax.process_count() == 1 and (
        slow := _slow(attempt, checks.EXAMPLE)
    ):
        words = f"{slow}: check whether each call compiles again"
    found = _pairs(quantities(yours), quantities(ours))
    return found, [(words, "")] if words else []


def _pairs(
    yours: dict[str, str], ours: dict[str, str]
) -> dict[str, tuple[str, str]]:
    return {name: (yours[name], ours[name]) for name in ours}


def _slow(attempt: Attempt, call: str) -> str:
    """Say how long a call takes, if that is much longer than it needs."""

    def taken(each: Attempt) -> float:
        start = time.perf_counter()
        each(call)
        return 1000 * (time.perf_counter() - start)

    both = (attempt, solution(attempt.problem))
    # One call of each tells, unless something came between.
    for rounds in (1, 3):
        # In turns, for the machine may be busy now and then. The first
        # call of each may compile.
        times = [[taken(each) for each in both] for _ in range(rounds + 1)]
        mine, other = map(statistics.median, zip(*times[1:], strict=True))
        if mine <= max(SLOW, 10 * other):
            return ""
    return f"a call takes {mine:.0f} ms, the solution's {other:.0f} ms"
