"""Each attempt gets the verdict that its table or its file names."""

import importlib
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from edits import SOLUTIONS, Attempt, attempts, jobs
from many import grade_jobs, heading_of, words_of
from sizes import selected

from shardbook.book import GUIDE, explained, headings
from shardbook.problems import NAMES
from shardgrade.grading.verdict import Verdict
from shardgrade.jobs.sandbox import Limits, Sandbox
from shardgrade.reader import attempt_files

# All attempts at a problem, one after the other.
PATIENT = Limits(seconds=3600)
PAGES = Path(__file__).parents[2] / "docs/problems"
# What an attempt at these takes is a multiple of what others take.
SLOW = (
    "dropout_by_rows",
    "feed_batch",
    "fsdp_adamw",
    "one_metric",
    "repair_step",
    "resume_run",
    "ring_attention",
    "scan_layers",
)


def with_kind(problem: str, verdict: str) -> str:
    """Give a verdict with the kind of its check in place of the name."""
    status, _, name = verdict.partition(": ")
    rules = importlib.import_module(f"shardgrade.checks.{problem}")
    known = {**rules.CHECKS, **getattr(rules, "ELSEWHERE", {})}
    return f"{status}: {known[name].kind}" if name in known else verdict


def graded(problem: str, devices: int) -> list[Attempt]:
    """Choose what to grade: on two devices one attempt a kind of check."""
    solution = (SOLUTIONS / f"{problem}.py").read_text("utf-8")
    starter = attempt_files.starter(problem)
    found = attempts(problem)
    wrong = [attempt for attempt in found if attempt.verdict != "right"]
    if devices < 8:
        kinds = {with_kind(problem, each.verdict): each for each in wrong}
        wrong = [*kinds.values()]
    # Readers put it below the lines that set jax up on the page.
    page = (PAGES / f"{problem}.md").read_text("utf-8")
    above, number = re.findall(r"^jax\.config\.update.*\n", page, re.M)[:2]
    text = f"import jax\n\n{above}{number}{solution}"
    ours = [Attempt(problem, "solution", "right", text)]
    # Code to repair is a wrong attempt, which the table has.
    if "NotImplementedError" in starter:
        ours += [Attempt(problem, "starter", "not written", starter)]
    return [
        *ours,
        *(attempt for attempt in found if attempt.verdict == "right"),
        *wrong,
    ]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make a test of each attempt, named by its problem and its name."""
    if "attempt" in metafunc.fixturenames:
        devices = metafunc.config.getoption("devices")
        found = [
            each for name in NAMES for each in parameters(name, devices)
        ]
        metafunc.parametrize("attempt", found)


def parameters(problem: str, devices: int) -> Iterator[object]:
    """Mark what gets a verdict again, and attempts at slow problems."""
    known = set()
    for attempt in graded(problem, devices):
        marks = []
        kind = with_kind(problem, attempt.verdict)
        if kind in known:
            again = "another attempt fails a check of this kind"
            marks = [pytest.mark.newest, pytest.mark.exhaustive(again)]
        elif problem in SLOW:
            marks = [pytest.mark.exhaustive("its cases take seconds")]
        if attempt.name != "solution":
            known.add(kind)
        # What is before the last "::" is the scope that xdist loads.
        name = f"{problem}::{attempt.name}"
        yield pytest.param(attempt, id=name, marks=marks)


@pytest.fixture(scope="module")
def verdicts(
    request: pytest.FixtureRequest,
    sandbox: Sandbox,
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[str], dict[str, Verdict]]:
    """Grade the attempts whose tests are selected, a problem at a time."""
    chosen = selected(request, "attempt")
    devices = request.config.getoption("devices")

    @cache
    def of(problem: str) -> dict[str, Verdict]:
        ours = [each for each in chosen if each.problem == problem]
        todo = jobs(ours, tmp_path_factory.mktemp("attempts"), devices)
        found = grade_jobs(sandbox, todo, PATIENT)
        return {verdict.source: verdict for verdict in found}

    return of


def test_an_attempt_gets_its_verdict(
    verdicts: Callable[[str], dict[str, Verdict]],
    attempt: Attempt,
    pytestconfig: pytest.Config,
) -> None:
    """The grader finds the status, the check and the words expected."""
    verdict = verdicts(attempt.problem)[str(attempt)]
    # As a string, for pytest shortens what it shows of an object.
    whole = repr(verdict)
    found, expected = heading_of(verdict), attempt.verdict
    if pytestconfig.getoption("devices") < 8:
        # On fewer, another check of the kind may be the first to fail.
        found = with_kind(attempt.problem, found)
        expected = with_kind(attempt.problem, expected)

    assert found == expected, whole
    assert attempt.says in words_of(verdict), whole
    if verdict.status in ("wrong", "crashed"):
        assert verdict.why, whole
        assert (
            verdict.read in headings(attempt.problem)
            or verdict.read.startswith(GUIDE)
            or explained(verdict.why)
        ), (
            f"docs/problems/{attempt.problem}.md has no heading "
            f"{verdict.read!r}, which the check names:\n{whole}"
        )
    if attempt.name == "solution":
        # A problem whose step is given compares other quantities.
        name = "collectives"
        pairs = verdict.compared
        yours, ours = pairs.get(name) or next(iter(pairs.values()))
        assert yours == ours, whole
        assert not verdict.printed, whole
        assert not verdict.remarks, whole


@pytest.mark.parametrize("name", NAMES)
def test_a_problem_has_enough_attempts(name: str) -> None:
    """A problem has at least three wrong attempts and a right one."""
    verdicts = [attempt.verdict for attempt in attempts(name)]
    right = verdicts.count("right")
    wrong = len(verdicts) - right

    assert wrong >= 3, (
        f"{name} has {wrong} wrong attempts of at least 3: add mistakes "
        f"that readers make to tests/attempts/{name}/edits.toml"
    )
    assert right >= 1, (
        f"{name} has no right attempt beside its solution: add one in "
        f"another style to tests/attempts/{name}/"
    )


@pytest.mark.parametrize("name", NAMES)
def test_each_check_is_the_first_to_refuse_an_attempt(name: str) -> None:
    """A check that no heading names is not shown to refuse anything."""
    rules = importlib.import_module(f"shardgrade.checks.{name}")
    checks = {**rules.CHECKS, **getattr(rules, "ELSEWHERE", {})}
    refusing = {
        check for check, each in checks.items() if each.kind != "remark"
    }
    first = {each.verdict.partition(": ")[2] for each in attempts(name)}
    never = refusing - first

    assert not never, (
        f"no attempt at {name} is refused first by {sorted(never)}: add "
        "a mistake that a reader makes, and that no check before refuses, "
        f"to tests/attempts/{name}/edits.toml, or delete the check"
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_page_has_each_heading_that_its_check_names(name: str) -> None:
    """A check sends readers to headings of the page, whatever is wrong."""
    rules = importlib.import_module(f"shardgrade.checks.{name}")
    named = [
        *(
            (check, [each.read])
            for part in ("CHECKS", "ELSEWHERE")
            for check, each in getattr(rules, part, {}).items()
        ),
        (
            "ERRORS",
            [section for _, section in getattr(rules, "ERRORS", ())],
        ),
        ("DEPRECATED", [getattr(rules, "DEPRECATED", "Sources")]),
    ]
    found = headings(name)
    lost = {
        f"{check}: {section!r}"
        for check, sections in named
        for section in sections
        if section not in found
    }

    assert not lost, (
        f"checks/{name}.py names headings that docs/problems/{name}.md "
        f"does not have: {', '.join(sorted(lost))}. It has {found}"
    )
