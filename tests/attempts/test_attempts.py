"""Wrong attempts fail by the check that is meant, and right ones pass."""

import importlib
import re
from pathlib import Path

import pytest

from shardbook import attempts
from shardbook.problems import NAMES
from shardbook.verdicts import Verdict, verdicts_of
from shardbook.warm import Warm

TESTS = Path(__file__).parents[1]
WRONG = sorted(TESTS.glob("wrong_attempts/*/*.py"))
RIGHT = sorted(TESTS.glob("right_attempts/*/*.py"))
SOLUTIONS = [
    TESTS.parent / "src/shardbook/problems" / f"{n}.py" for n in NAMES
]


def identify(path: Path) -> str:
    """Give a short name of an attempt."""
    return f"{path.parent.name}/{path.stem}"


@pytest.fixture(scope="module")
def verdicts(
    pytestconfig: pytest.Config,
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Verdict]:
    """Grade all of them, from one warm process."""
    folder = tmp_path_factory.mktemp("starters")
    starters = [attempts.start(name, folder) for name in NAMES]
    jobs = [
        (path.parent.name, "file", str(path), identify(path))
        for path in (*WRONG, *RIGHT)
    ]
    jobs += [
        (path.stem, "file", str(path), f"{kind}/{path.stem}")
        for kind, paths in (("starter", starters), ("solution", SOLUTIONS))
        for path in paths
    ]
    with Warm() as warm:
        devices = pytestconfig.getoption("--devices")
        found = verdicts_of(warm, jobs, seconds=120, devices=devices)
        return {verdict.source: verdict for _, verdict in found}


@pytest.mark.parametrize("path", WRONG, ids=identify)
def test_a_wrong_attempt_is_caught(
    verdicts: dict[str, Verdict], path: Path
) -> None:
    """It is wrong, by the check that its first line names."""
    verdict = verdicts[identify(path)]
    first = path.read_text("utf-8").splitlines()[0]
    status, _, check = first.removeprefix("# ").partition(": ")

    assert (verdict.status, verdict.check) == (status, check), verdict
    assert verdict.why


@pytest.mark.parametrize("path", RIGHT, ids=identify)
def test_a_right_attempt_passes(
    verdicts: dict[str, Verdict], path: Path
) -> None:
    """However it is written."""
    verdict = verdicts[identify(path)]

    assert verdict.status == "right", verdict


@pytest.mark.parametrize("name", NAMES)
def test_a_solution_is_right(
    verdicts: dict[str, Verdict], name: str
) -> None:
    """And it is measured beside itself."""
    verdict = verdicts[f"solution/{name}"]

    assert verdict.status == "right", verdict
    assert (
        verdict.compared["collectives"][0]
        == (verdict.compared["collectives"][1])
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_starter_is_not_written(
    verdicts: dict[str, Verdict], name: str
) -> None:
    """Not begun is not wrong."""
    assert verdicts[f"starter/{name}"].status == "not written"


@pytest.mark.parametrize("name", NAMES)
def test_there_are_enough_of_them(name: str) -> None:
    """Each problem has eight wrong attempts, and some right ones."""
    assert len([p for p in WRONG if p.parent.name == name]) >= 8
    assert len([p for p in RIGHT if p.parent.name == name]) >= 3


def headings(name: str) -> list[str]:
    """Read the headings of a problem's page."""
    page = TESTS.parent / "docs/problems" / f"{name}.md"
    return re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.M)


def test_there_is_a_section_to_read(verdicts: dict[str, Verdict]) -> None:
    """Each mistake sends its reader to a heading of the problem's page."""
    for verdict in verdicts.values():
        if verdict.status in ("wrong", "crashed"):
            assert verdict.read in headings(verdict.problem), verdict


@pytest.mark.parametrize("name", NAMES)
def test_the_sections_of_errors_exist(name: str) -> None:
    """Also those of errors that no attempt here meets."""
    checks = importlib.import_module(f"shardbook.checks.{name}")

    assert {section for _, section in checks.ERRORS} <= {*headings(name)}
