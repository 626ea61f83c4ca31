"""A call that was rehearsed for ends as one that was not, but sooner."""

import os
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
from edits import SOLUTIONS, Attempt, attempts, jobs

from shardgrade.grading.verdict import Verdict
from shardgrade.jobs.job import Job, Rehearsal, open_sandbox
from shardgrade.jobs.sandbox import (
    USUAL,
    Call,
    Limits,
    Outcome,
    Sandbox,
)

pytestmark = pytest.mark.newest

PATIENT = Limits(seconds=120)
# Programs are noted as a call compiles them, as a step that it returns is
# called again and again, or by the check of the problem itself.
KINDS = ("megatron_mlp", "accumulate_gradients", "average_weights")


def call(
    sandbox: Sandbox, call: Call[Any], rehearsal: Call[Any]
) -> Outcome[Any]:
    """Make a call, with a rehearsal for the next one."""
    with sandbox.start(call, USUAL, rehearsal) as running:
        return running.outcome()


@dataclass(frozen=True)
class Masks:
    """Sets the umask."""

    mask: int

    def __call__(self) -> int:
        """Return the one before."""
        return os.umask(self.mask)


def test_the_process_that_rehearsed_answers_a_later_call(
    sandbox: Sandbox,
) -> None:
    """A rehearsed process answers a later call with the same rehearsal.

    The umask that it has set tells which process it is.
    """

    def answer(rehearsal: Masks) -> Any:
        return call(sandbox, partial(os.umask, 0), rehearsal).value

    first = answer(Masks(0o123))
    # A call that comes too soon is answered by a fresh process.
    while (second := answer(Masks(0o123))) == first:
        pass
    other = answer(Masks(0o111))

    assert second == 0o123
    assert other == first != second


@pytest.mark.exhaustive("a rare accident")
@pytest.mark.parametrize(
    "rehearsal",
    [os.abort, partial(time.sleep, 60)],
    ids=["died", "not ready"],
)
def test_a_call_does_not_need_its_rehearsal(
    sandbox: Sandbox,
    rehearsal: Call[Any],
) -> None:
    """A process that died, or is not ready, is replaced by a fresh one."""
    endings = {
        call(sandbox, time.time, rehearsal).ending for _ in range(20)
    }

    assert endings == {"returned"}


def has_ended(process: psutil.Process) -> bool:
    """Tell whether a process runs no more, waited for or not."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.mark.exhaustive("a rare accident")
@pytest.mark.parametrize("who", ["the process", "its supervisor"])
def test_a_process_that_is_killed_as_it_waits(who: str) -> None:
    """A rehearsed process that was killed is no crash of the next call."""
    with open_sandbox() as sandbox:
        first = call(sandbox, os.getpid, os.getpid)
        assert sandbox._rehearsed is not None
        assert sandbox._rehearsed.poll(60)
        server = psutil.Process(sandbox._server().process.pid)
        (supervisor,) = (
            each for each in server.children() if each.children()
        )
        (worker,) = supervisor.children()
        (worker if who == "the process" else supervisor).kill()
        while not has_ended(worker):
            time.sleep(0.01)
        second = call(sandbox, os.getpid, os.getpid)

    assert (first.ending, second.ending) == ("returned", "returned")
    assert second.value not in (first.value, worker.pid)


def test_what_a_rehearsal_prints(sandbox: Sandbox) -> None:
    """The output of a call is its own."""
    rehearsal = partial(os.system, "echo rehearsed")
    outputs = {
        call(sandbox, partial(str, "now"), rehearsal).output
        for _ in range(20)
    }

    assert outputs == {""}


@dataclass(frozen=True)
class AfterRehearsal:
    """Does in one process what a watch does."""

    job: Job

    def __call__(self) -> Verdict | Job:
        """Rehearse, and grade."""
        Rehearsal(self.job.problem, self.job.devices)()
        return self.job()


@pytest.mark.exhaustive("it grades many attempts")
def test_verdicts_do_not_depend_on_it(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    """What the solution compiled does not show in another's verdict."""
    some = []
    for name in KINDS:
        text = (SOLUTIONS / f"{name}.py").read_text("utf-8")
        # One that gets as far as the programs that were compiled.
        other = next(
            each
            for verdict in ("wrong: communication", "right")
            for each in attempts(name)
            if each.verdict == verdict
        )
        some += [Attempt(name, "solution", "right", text), other]
    for attempt, job in zip(some, jobs(some, tmp_path), strict=True):
        outcome = sandbox.call(AfterRehearsal(job), PATIENT)
        verdict = outcome.value
        assert verdict, (attempt, outcome)
        check = f": {verdict.check}" if verdict.check else ""

        assert verdict.status + check == attempt.verdict, verdict
