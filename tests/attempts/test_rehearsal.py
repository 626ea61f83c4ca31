"""A job that was rehearsed for ends as one that was not, but sooner."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from shardbook import grading
from shardbook.problems import NAMES
from shardbook.warm import Outcome, Warm

TESTS = Path(__file__).parents[1]
# What a process inherits tells whether it is the one that rehearsed.
MARK = ("os:umask", [0o123])


def run(warm: Warm, rehearsal: tuple[str, Sequence[Any]]) -> Outcome:
    """Read the mark of a process, once it had the time to rehearse."""
    time.sleep(0.5)
    ((_, outcome),) = warm.run("os:umask", [[0]], rehearsal=rehearsal)
    return outcome


def test_the_process_that_rehearsed_does_the_job() -> None:
    """The first job has none, nor has one of another kind."""
    with Warm() as warm:
        first = run(warm, MARK)
        # A watch asks for nothing many times a second.
        assert list(warm.run("os:umask", [])) == []
        second = run(warm, MARK)
        other = run(warm, ("os:umask", [0o111]))

    assert first.value != 0o123
    assert second.value == 0o123
    assert other.value == first.value


@pytest.mark.parametrize(
    "rehearsal",
    [("os:abort", []), ("time:sleep", [60])],
    ids=["died", "not ready"],
)
def test_a_job_does_not_need_its_rehearsal(
    rehearsal: tuple[str, Sequence[Any]],
) -> None:
    """A process that died, or is not ready, is replaced by a fresh one."""
    with Warm() as warm:
        outcomes = [run(warm, rehearsal) for _ in range(3)]

    assert {outcome.ending for outcome in outcomes} == {"returned"}
    assert outcomes[-1].seconds < 10


def rehearse_and_grade(problem: str, *rest: Any) -> dict[str, Any]:
    """Do in one process what a watch does."""
    grading.rehearse(problem)
    return grading.grade(problem, *rest)


def test_verdicts_do_not_depend_on_it() -> None:
    """What the solution compiled does not show in another's verdict."""
    paths = [
        TESTS / "wrong_attempts" / name / file.name
        for name in NAMES
        # Every eighth; to grade all of them twice takes minutes.
        for file in sorted((TESTS / "wrong_attempts" / name).iterdir())[::8]
    ]
    jobs = [(p.parent.name, "file", str(p), p.stem) for p in paths]
    solutions = TESTS.parent / "src/shardbook/problems"
    jobs += [
        (name, "file", str(solutions / f"{name}.py"), "solution")
        for name in NAMES
    ]
    with Warm() as warm:
        found = dict(
            warm.run(f"{__name__}:rehearse_and_grade", jobs, seconds=120)
        )

    assert len(found) == len(jobs) > 20
    for number, (_, _, path, name) in enumerate(jobs):
        verdict = found[number].value
        words = f"{verdict['status']}: {verdict['check']}"
        first = Path(path).read_text("utf-8").splitlines()[0]
        expected = "right: " if name == "solution" else first[2:]

        assert words == expected, (name, verdict)
