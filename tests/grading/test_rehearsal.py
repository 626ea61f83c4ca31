"""A call that was rehearsed for ends as one that was not, but sooner."""

from pathlib import Path
from typing import Any

import psutil
import pytest
from edits import SOLUTIONS, Attempt, attempts, jobs

from shardbook.grading import run as grading
from shardbook.grading.jobs.sandbox import Sandbox
from shardbook.problems import NAMES


def test_the_process_that_rehearsed_answers_a_later_call() -> None:
    """A rehearsed process answers a later call with the same rehearsal.

    The umask that it has set tells which process it is.
    """
    with Sandbox() as sandbox:

        def call(mask: int) -> Any:
            rehearsal = ("os:umask", [mask])
            return sandbox.call("os:umask", [0], rehearsal=rehearsal).value

        first = call(0o123)
        # A call that comes too soon is answered by a fresh process.
        while (second := call(0o123)) == first:
            pass
        other = call(0o111)

    assert second == 0o123
    assert other == first != second


@pytest.mark.parametrize(
    "rehearsal",
    [("os:abort", []), ("time:sleep", [60])],
    ids=["died", "not ready"],
)
def test_a_call_does_not_need_its_rehearsal(
    rehearsal: tuple[str, list[Any]],
) -> None:
    """A process that died, or is not ready, is replaced by a fresh one."""
    with Sandbox() as sandbox:
        endings = {
            sandbox.call("time:time", [], rehearsal=rehearsal).ending
            for _ in range(20)
        }

    assert endings == {"returned"}


@pytest.mark.parametrize("who", ["the process", "its supervisor"])
def test_a_process_that_is_killed_as_it_waits(who: str) -> None:
    """A rehearsed process that was killed is no crash of the next call."""
    with Sandbox() as sandbox:

        def call() -> Any:
            rehearsal = ("os:getpid", [])
            return sandbox.call("os:getpid", [], rehearsal=rehearsal)

        first = call()
        assert sandbox._rehearsed is not None
        assert sandbox._rehearsed.poll(60)
        server = psutil.Process(sandbox._server().process.pid)
        (supervisor,) = (
            each for each in server.children() if each.children()
        )
        (job,) = supervisor.children()
        (job if who == "the process" else supervisor).kill()
        psutil.wait_procs([job], timeout=60)
        second = call()

    assert (first.ending, second.ending) == ("returned", "returned")
    assert second.value not in (first.value, job.pid)


def test_what_a_rehearsal_prints() -> None:
    """The output of a call is its own."""
    rehearsal = ("os:system", ["echo rehearsed"])
    with Sandbox() as sandbox:

        def call() -> Any:
            order = ("builtins:str", ["now"])
            return sandbox.call(*order, rehearsal=rehearsal)

        outputs = {call().output for _ in range(20)}

    assert outputs == {""}


def test_an_error_of_who_waits() -> None:
    """An error of the caller's own is passed on as it is."""

    def wanted() -> bool:
        raise PermissionError("of the caller")

    with Sandbox() as sandbox, pytest.raises(PermissionError):
        sandbox.call("time:sleep", [60], wanted=wanted)


def rehearse_and_grade(problem: str, *rest: Any) -> dict[str, Any]:
    """Do in one process what a watch does."""
    grading.rehearse(problem)
    return grading.grade(problem, *rest)


def test_verdicts_do_not_depend_on_it(tmp_path: Path) -> None:
    """What the solution compiled does not show in another's verdict."""
    # Every eighth; to grade all of them twice takes minutes.
    some = [each for name in NAMES for each in attempts(name)[::8]]
    for name in NAMES:
        text = (SOLUTIONS / f"{name}.py").read_text("utf-8")
        some.append(Attempt(name, "solution", "right", text))
    with Sandbox() as sandbox:
        outcomes = sandbox.map(
            f"{__name__}:rehearse_and_grade",
            [(*job, 8) for job in jobs(some, tmp_path)],
            seconds=120,
        )
        found = list(outcomes)

    assert len(found) == len(some) > 20
    for outcome, attempt in zip(found, some, strict=True):
        verdict = outcome.value
        assert verdict, (attempt, outcome)
        check = f": {verdict['check']}" if verdict["check"] else ""

        assert verdict["status"] + check == attempt.verdict, verdict
