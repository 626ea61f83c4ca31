"""An attempt to grade, and how it is graded in a sandbox."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from shardbook import book
from shardgrade.grading.progress import unheard
from shardgrade.grading.show import visible
from shardgrade.grading.verdict import Verdict
from shardgrade.jobs.sandbox import (
    Outcome,
    Running,
    Sandbox,
    Then,
    at_once,
)
from shardgrade.jobs.task import Task

# What the libraries say as they give up.
OUT_OF_MEMORY = "bad_alloc|StartThread|ut of memory|Cannot allocate memory"
DIED = ("died of", "ended with")
# How a reason begins if a limit of the job is exceeded.
EXCEEDED = {
    ("seconds", "s"): "(it|its process|grading it) (used more|hardly used)",
    ("megabytes", "MiB of memory"): (
        r"it needs more than|[\w.]*(MemoryError|: RESOURCE_EXHAUSTED)"
    ),
}


@dataclass(frozen=True)
class Job(Task):
    """A task that grades the attempt where it is called.

    That is in a process of its own.
    """

    def __call__(self) -> Verdict | Then[Verdict]:
        """Return the verdict, or the job on other devices that gives it."""
        # Here, because it imports jax: a command that makes a job and sends
        # it to a worker does not need jax itself.
        from shardgrade.jobs import run, several

        if (processes := processes_of(self.problem)) > 1:
            return several.grade(self, processes)
        verdict = run.grade(self)
        if passed := self.passed:
            agree = verdict.status in ("right", passed.status)
            return passed if agree else verdict
        if verdict.passed and (others := run.other_devices(self.problem)):
            return Then(replace(self, devices=others, passed=verdict))
        return verdict


@dataclass(frozen=True)
class Rehearsal:
    """The solution of a problem, to be graded before an attempt comes.

    Attributes:
        problem: The name of the problem.
        devices: How many devices the attempt will be graded on.
    """

    problem: str
    devices: int

    def __call__(self) -> None:
        """Grade the solution."""
        from shardgrade.jobs import run

        # Processes that have joined can't wait for an attempt to come.
        if processes_of(self.problem) == 1:
            run.rehearse(self.problem, self.devices)


def processes_of(problem: str) -> int:
    """Tell in how many processes a problem is graded, as its page says."""
    return int(book.about(problem).get("processes", "1"))


def open_sandbox() -> Sandbox:
    """Start a sandbox for jobs."""
    return Sandbox("shardgrade.jobs.run")


def start(sandbox: Sandbox, job: Job) -> Running[Verdict]:
    """Begin to grade an attempt, and have a rehearsal for the next one.

    Raises:
        OSError: If the sandbox has ended.
    """
    rehearsal = Rehearsal(job.problem, job.devices)
    return sandbox.start(job, job.limits, rehearsal)


def verdict_of(job: Job, outcome: Outcome[Verdict]) -> Verdict:
    """Give the verdict on an attempt, however its job ended."""
    printed, ending = outcome.output, outcome.ending
    if verdict := outcome.value:
        if verdict.status == "crashed" and not verdict.read:
            read = book.explained(visible(verdict.why))
            verdict = verdict.update(read=read)
    else:
        why = f"its process {ending}"
        if ending.startswith(DIED) and re.search(OUT_OF_MEMORY, printed):
            most = job.limits.megabytes
            why, printed = f"it needs more than {most:,} MiB of memory", ""
        verdict = Verdict(job.problem, job.source, "crashed", why=why)
    if verdict.status == "crashed":
        verdict = verdict.update(
            case=verdict.case or outcome.told.partition("case ")[2],
            call=verdict.call or outcome.called,
            expected=_limit(job, verdict.why),
        )
    seconds = round(outcome.seconds, 3)
    verdict = verdict.update(printed=printed, seconds=seconds)
    return Verdict(**visible(verdict.as_json()))


def _limit(job: Job, why: str) -> str:
    """Name the limit that an attempt has exceeded, and how to raise it."""
    call = isinstance(job.attempt, bytes)
    for (name, unit), pattern in EXCEEDED.items():
        if re.match(pattern, why):
            most = f"{getattr(job.limits, name):,.9g} {unit}"
            option = f"check(..., {name}=...)" if call else f"--{name}"
            return f"at most {most}; {option} allows more"
    return ""


def verdicts_of(
    sandbox: Sandbox,
    jobs: Iterable[Job],
    told: Callable[[str], None] = unheard,
) -> Iterator[Verdict]:
    """Grade attempts, each in a process of its own.

    Args:
        sandbox: Where to grade.
        jobs: The attempts.
        told: What to call with how far one of them has come.

    Yields:
        The verdicts, in the order of the jobs.
    """

    def grade(job: Job) -> Verdict:
        return verdict_of(job, sandbox.call(job, job.limits, told))

    return at_once(grade, jobs)
