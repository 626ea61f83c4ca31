"""What every problem has, and every page of a problem.

Each failure says what to write next.
"""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from shardbook.problems import NAMES
from shardbook_site.cells import CELL

ROOT = Path(__file__).parents[2]
# Where a problem is, and what is there.
PLACES = {
    "src/shardbook/problems/{}.py": "the solution",
    "docs/problems/{}.md": "the page",
    "src/shardbook/checks/{}.py": "what a right answer must show",
    "tests/problems/test_{}.py": "the tests of the solution",
}
# The headings of a page, and what stands under each. Between the first and
# the second, a page has headings of its own.
HEADINGS = {
    "Why this matters": "where a reader would meet the problem",
    "On eight devices": "what happens on the mesh, with drawings",
    "Problem": "what the function takes and returns",
    "Hints": "folds: the idea, the API, nearly the code",
    "Your attempt": "the directive {attempt}",
    "Solution": "the directive {solution}, and how it works",
    "Pitfalls": "mistakes, each made in a cell",
    "Sources": "where the problem comes from, with links",
}
OLD_HEADINGS = [
    "Why this matters",
    "The API",
    "On eight devices",
    "Pitfalls",
    "Problem",
    "Hints",
    "Your attempt",
    "Solution",
    "What changed since the source",
]
# The front matter of a page, and what it may be.
FACTS = {
    "file_format": "mystnb",
    "difficulty": "easy|medium|hard",
    "category": r"\w.*",
    "tags": r"\w.*",
    "summary": r".+\.",
}


def page_of(name: str) -> str:
    """Read the page of a problem, without its code cells."""
    path = ROOT / "docs" / "problems" / f"{name}.md"
    return CELL.sub("", path.read_text("utf-8"))


def cells_of(name: str) -> list[str]:
    """Read the code cells of a problem's page."""
    path = ROOT / "docs" / "problems" / f"{name}.md"
    return CELL.findall(path.read_text("utf-8"))


def wrong_headings(found: list[str]) -> str:
    """Say what is wrong with the headings of a page, if anything is."""
    if found == OLD_HEADINGS:
        return ""
    expected = list(HEADINGS)
    for heading, under_it in HEADINGS.items():
        if found.count(heading) != 1:
            return f'write one heading "## {heading}": {under_it}'
    in_order = [heading for heading in found if heading in HEADINGS]
    if in_order != expected:
        return f"put the headings into this order: {expected}"
    free = [heading for heading in found if heading not in HEADINGS]
    if found != [*expected[:1], *free, *expected[1:]]:
        return (
            f"move {free} between {expected[0]!r} and {expected[1]!r}, "
            "or make them headings of a third level"
        )
    return ""


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("place", PLACES)
def test_a_problem_is_complete(name: str, place: str) -> None:
    """Each problem has a solution, a page, a check and tests."""
    path = place.format(name)

    assert (ROOT / path).is_file(), f"write {path}: {PLACES[place]}"


@pytest.mark.parametrize("place", list(PLACES)[:3])
def test_no_problem_is_off_the_map(place: str) -> None:
    """Each file of a problem is of one that NAMES lists."""
    found = {path.stem for path in ROOT.glob(place.format("*"))}
    unknown = found - {"__init__"} - set(NAMES)

    assert not unknown, (
        f"add {unknown} to NAMES in src/shardbook/problems/__init__.py, or "
        f"remove {place}"
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_page_has_the_same_headings(name: str) -> None:
    """A page has the headings of all pages, in their order."""
    found = re.findall(r"^## (.*)$", page_of(name), re.M)
    wrong = wrong_headings(found)

    assert not wrong, f"docs/problems/{name}.md: {wrong}"


NEW = list(HEADINGS)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ([NEW[0], "The idea", "The API", *NEW[1:]], ""),
        (OLD_HEADINGS, ""),
        (NEW[:-1], 'write one heading "## Sources"'),
        ([*NEW, "Hints"], 'write one heading "## Hints"'),
        ([NEW[1], NEW[0], *NEW[2:]], "into this order"),
        ([*NEW, "More"], "move ['More'] between"),
    ],
    ids=["new", "old", "lacking", "twice", "disorder", "free"],
)
def test_wrong_headings_says_what_to_do(
    found: list[str], words: str
) -> None:
    """wrong_headings takes both orders, and names what is missing."""
    said = wrong_headings(found)

    assert words in said
    assert bool(words) == bool(said)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("fact", FACTS)
def test_a_page_says_what_it_is(name: str, fact: str) -> None:
    """The front matter has what the map and the top of the page show."""
    front = page_of(name).split("---\n")[1]
    facts = dict(line.split(": ", 1) for line in front.splitlines())

    assert re.fullmatch(FACTS[fact], facts.get(fact, "")), (
        f"docs/problems/{name}.md: write a line in the front matter, "
        f'"{fact}: ...", that matches {FACTS[fact]!r}'
    )


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("directive", ["attempt", "solution"])
def test_a_page_shows_the_tested_file(name: str, directive: str) -> None:
    """A page shows starter and solution as the solution's file has them."""
    block = f"```{{{directive}}} {name}\n```\n"

    assert page_of(name).count(block) == 1, (
        f"docs/problems/{name}.md: write this block once\n{block}"
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_page_runs_the_solution(name: str) -> None:
    """A page imports the solution that it shows."""
    line = f"from shardbook.problems import {name} as solution"

    assert any(line in cell for cell in cells_of(name)), (
        f"docs/problems/{name}.md: import the solution in a cell\n{line}"
    )


@pytest.mark.parametrize("name", NAMES)
def test_the_code_of_a_page_is_formatted(name: str) -> None:
    """Each cell is as ruff formats it, in 76 columns."""
    for code in cells_of(name):
        result = subprocess.run(
            [sys.executable, "-m", "ruff", "format", "--diff", "-"],
            input=code,
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        long = [line for line in code.splitlines() if len(line) > 76]

        assert result.stdout == "", f"format this cell:\n{result.stdout}"
        assert long == [], "break these lines after 76 columns"


@pytest.mark.parametrize("name", NAMES)
def test_a_solution_stands_alone(name: str) -> None:
    """A solution imports jax, flax, numpy and Python's own, and runs."""
    path = ROOT / "src" / "shardbook" / "problems" / f"{name}.py"
    text = path.read_text("utf-8")
    found = set(re.findall(r"^(?:from|import) (\w+)", text, re.M))
    foreign = found - {"jax", "flax", "numpy"} - sys.stdlib_module_names

    assert not foreign, f"{path}: do without {foreign}"
    assert text.count("    # --- solution ---\n") == 1, (
        f'{path}: write the line "    # --- solution ---" once, where the '
        "reader's part begins"
    )
    # -I: no folder of ours, and no environment, is on the path.
    subprocess.run([sys.executable, "-I", path], check=True, timeout=600)


@pytest.mark.parametrize(
    "part", ["```{problem-map}", "```{problem-contents}", "reference/index"]
)
def test_the_front_page_leads_everywhere(part: str) -> None:
    """The front page has the map, the contents and the reference."""
    assert part in (ROOT / "docs" / "index.md").read_text("utf-8")


@pytest.mark.parametrize(
    "part",
    [
        # The schema, which "nox -s lint" checks, does not ask for it.
        "configuration: conf.py",
        '-s docs -- --out "$READTHEDOCS_OUTPUT/html"',
        '    python: "3.13"',
        "--require-hashes -r locks/3.13.txt",
        "fail_on_warning: true",
    ],
)
def test_read_the_docs_runs_what_a_writer_runs(part: str) -> None:
    """Read the Docs builds by "nox -s docs", on what is locked."""
    assert part in (ROOT / ".readthedocs.yaml").read_text("utf-8")


def test_every_python_that_is_promised() -> None:
    """The classifiers and requires-python agree."""
    facts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    project = facts["project"]
    pythons = re.findall(r"Python :: (3\.\d+)", str(project["classifiers"]))

    assert project["requires-python"] == f">={pythons[0]}"
    assert f"{sys.version_info[0]}.{sys.version_info[1]}" in pythons
