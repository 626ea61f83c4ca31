"""Grade one attempt in several processes at once.

Each process makes all calls and all checks, and compares what it holds
itself with what it holds of the solution's results.
"""

import pickle
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from shardgrade.grading._jax_internals import wait_for_others
from shardgrade.grading.attempt import BEFORE, TimeIsUp
from shardgrade.grading.progress import (
    LISTENER,
    Progress,
    tell,
    unheard,
)
from shardgrade.grading.verdict import Verdict
from shardgrade.jobs import run
from shardgrade.jobs.task import Task
from shardscope.cluster.fates import (
    BECAUSE_OF_OTHERS,
    Fate,
    Returned,
    Waiting,
    causes,
    describe_fate,
)
from shardscope.cluster.forked import fork
from shardscope.cluster.group import fates_of, group, watch
from shardscope.cluster.member import Seat

# How many seconds the processes may hardly use the CPU, before they are
# taken to wait for one another.
SECONDS = 15
# Where a line is no line of an attempt.
SRC = Path(__file__).parents[2]
OURS = {SRC / name for name in ("shardbook", "shardgrade", "shardscope")}


def grade(task: Task, processes: int) -> Verdict:
    """Grade an attempt in several processes; jax has no devices here yet.

    Args:
        task: The attempt, and how many devices the processes have in all.
        processes: How many processes to grade it in.

    Returns:
        The verdict.
    """

    def hear(words: Progress) -> None:
        tell(words, type(words))

    def start(seat: Seat) -> Any:
        def work(send: Callable[[Any], None]) -> Returned:
            first = seat.process == 0
            LISTENER.set(send if first else unheard)
            BEFORE.set(wait_for_others)
            verdict = run.grade(replace(task, devices=seat.devices))
            # One that lost another is no reason to end the other, which
            # may be the cause.
            return Returned(pickle.dumps(verdict), _is_cause(verdict))

        return fork(seat, work, hear)

    limit = ""
    with (
        group(start, processes, task.devices // processes) as members,
        run.limits(task.limits.seconds),
    ):
        try:
            watch(members, SECONDS)
        except TimeIsUp as error:
            limit = f"it {error}"
        fates = fates_of(members)
    found = {
        index: pickle.loads(fate.value)
        for index, fate in fates.items()
        if isinstance(fate, Returned)
    }
    return _verdict(fates, found, limit) or Verdict(
        task.problem,
        task.source,
        "crashed",
        check="callable",
        why=_why(fates, found, limit),
        read="" if limit else "Pitfalls",
    )


def _verdict(
    fates: Mapping[int, Fate], found: Mapping[int, Verdict], limit: str
) -> Verdict | None:
    """Give what the verdict is to say, if a process has found it."""
    failed = {i: each for i, each in found.items() if not each.passed}
    own = {i: each for i, each in failed.items() if _is_cause(each)}
    if not own and (limit or causes(fates) or len(found) < len(fates)):
        return None
    if not failed:
        return found[0]
    index, first = min((own or failed).items())
    if [first] * len(fates) != [*found.values()]:
        where = f"in process {index} of {len(fates)}"
        given = ", ".join(filter(None, (first.given, where)))
        first = first.update(given=given)
    return first


def _is_cause(verdict: Verdict) -> bool:
    """Tell whether a process failed of itself."""
    lost = BECAUSE_OF_OTHERS.search(verdict.why)
    return not verdict.passed and not lost


def _why(
    fates: Mapping[int, Fate], found: Mapping[int, Verdict], limit: str
) -> str:
    """Say what became of the processes, if none has found a reason."""
    first = causes(fates)
    lines = [limit] if limit else []
    if not (limit or first):
        lines = ["the processes wait for one another"]
    for index, fate in fates.items():
        if limit or not first or index in first:
            words = _told(fate, short=bool(limit))
            if index in found and not found[index].passed:
                reason, *_ = found[index].why.splitlines()
                words = f"then lost the others: {reason}"
            lines.append(f"process {index} {words}")
    return "\n".join(lines)


def _told(fate: Fate, *, short: bool) -> str:
    """Say what became of a process, with no lines but the attempt's."""
    if not isinstance(fate, Waiting) or not fate.lines:
        return describe_fate(fate, short=short)
    lines = tuple(
        each
        for each in fate.lines
        if OURS.isdisjoint(Path(each.rpartition(":")[0]).parents)
    )
    if not lines:
        return "has made the call, and waits for the others"
    return describe_fate(
        Waiting(lines, fate.joined, fate.answered), short=short
    )
