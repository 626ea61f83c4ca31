"""What every problem has, and every page of a problem.

Each failure says what to write next.
"""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
import scaffold

from shardbook import book
from shardbook.problems import NAMES
from shardbook_site.cells import CELL
from shardgrade.reader import attempt_files

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
GUIDES = sorted(
    path.relative_to(DOCS).with_suffix("").as_posix()
    for path in DOCS.glob("guides/**/*.md")
)
# Where a problem is, and what is there.
PLACES = {
    "src/shardbook/problems/{}.py": "the solution",
    "docs/problems/{}.md": "the page",
    "src/shardgrade/checks/{}.py": "what a right answer must show",
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
# A page may have this one before the last.
CHIPS = "What a chip does"
# What a reader reads before the problem, code included.
WORDS = 900
# The front matter of a page, and what it may be.
FACTS = {
    "file_format": "mystnb",
    "difficulty": "easy|medium|hard",
    "time": r"\d+ minutes",
    "needs": r"[\w/]+(, [\w/]+)*",
    "category": r"\w.*",
    "tags": r"\w.*",
    "summary": r".+\.",
    "picture": (
        r"\{(arrays: \{\w+: \{shape: \[.*\], spec: \[.*\]\}.*\}"
        r"|(collectives: \[[a-z, -]+\], axis: (data|model), )?"
        r"shape: \[.+\](, spec: \[.+\])?), mesh: \[\d+, \d+\]\}"
    ),
}


def page_of(name: str) -> str:
    """Read the page of a problem."""
    path = ROOT / "docs" / "problems" / f"{name}.md"
    return path.read_text("utf-8")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("place", PLACES)
def test_a_problem_is_complete(name: str, place: str) -> None:
    """Each problem has a solution, a page and a check."""
    path = place.format(name)

    assert (ROOT / path).is_file(), f"write {path}: {PLACES[place]}"


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_left_of_the_scaffold(name: str) -> None:
    """What "nox -s new" writes in capitals is replaced."""
    capitals = r"\b[A-Z]+(?:[ ,;]+[A-Z]+)+\b|^# TITLE$"
    templates = "\n".join(scaffold.FILES.values())
    left = {*re.findall(capitals, templates, re.M)}
    found = [
        f"{path}: {words}"
        for path in (place.format(name) for place in PLACES)
        for words in re.findall(
            capitals, (ROOT / path).read_text("utf-8"), re.M
        )
        if words in left
    ]

    assert not found, f"replace what the scaffold says: {found}"


@pytest.mark.parametrize("place", PLACES)
def test_no_problem_is_off_the_map(place: str) -> None:
    """Each file of a problem is of one that NAMES lists."""
    found = {path.stem for path in ROOT.glob(place.format("[!_]*"))}
    unknown = found - set(NAMES)

    assert not unknown, (
        f"add {unknown} to PARTS in src/shardbook/problems/__init__.py, or "
        f"remove {place}"
    )


def test_nothing_is_left_of_a_problem_that_is_gone() -> None:
    """Attempts, starters and benchmarks are of problems that exist."""
    attempts = {path.name for path in (ROOT / "tests/attempts").glob("*/")}
    starters = (ROOT / "src/shardbook/problems/starters").glob("*.py")
    figures = (ROOT / "benchmarks/last_run.txt").read_text("utf-8")
    measured = set(
        re.findall(r"^([a-z]\w+) +[\d.]+ +[\d.]+", figures, re.M)
    )

    assert attempts == set(NAMES), "rename or remove folders of attempts"
    assert {path.stem for path in starters} <= set(NAMES), (
        "rename or remove files in src/shardbook/problems/starters"
    )
    assert measured <= {*NAMES, "median", "most"}, (
        "rename or remove rows in the figures"
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_page_has_the_same_headings(name: str) -> None:
    """A page has the headings of all pages, in their order."""
    page = f"docs/problems/{name}.md"
    expected = list(HEADINGS)
    found = re.findall(r"^## (.*)$", CELL.sub("", page_of(name)), re.M)
    for heading, under_it in HEADINGS.items():
        assert found.count(heading) == 1, (
            f'{page}: write one heading "## {heading}": {under_it}'
        )
    if CHIPS in found[:-1]:
        assert found[-2] == CHIPS, f'{page}: put "{CHIPS}" before Sources'
        found.remove(CHIPS)
    free = [heading for heading in found if heading not in HEADINGS]

    assert found == [*expected[:1], *free, *expected[1:]], (
        f"{page}: put the headings into this order: {expected}; others "
        f"stand between {expected[0]!r} and {expected[1]!r}, or are of a "
        "third level"
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_pitfall_is_made_in_a_cell(name: str) -> None:
    """A page makes each mistake that it warns of."""
    _, _, rest = page_of(name).partition("\n## Pitfalls\n")
    section, *_ = rest.split("\n## ")
    pitfalls = section.split("\n### ")[1:]
    only_told = [
        text.partition("\n")[0]
        for text in pitfalls
        if not CELL.search(text)
    ]

    assert pitfalls, f"docs/problems/{name}.md: write a pitfall, ### ..."
    assert not only_told, (
        f"docs/problems/{name}.md: make the mistake in a cell, and assert "
        f"what comes of it, under {only_told}"
    )


@pytest.mark.parametrize("name", NAMES)
def test_the_problem_comes_early(name: str) -> None:
    """A reader gets to the problem before losing patience."""
    _, _, text = page_of(name).split("---\n", 2)
    before, *_ = text.split("\n## Problem\n")
    count = len(before.split())

    assert count <= WORDS, (
        f"docs/problems/{name}.md: {count} words before the problem, code "
        f"included; keep to {WORDS}, and move the rest after the solution, "
        "or to a guide"
    )


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


@pytest.mark.parametrize("name", GUIDES)
def test_a_guide_says_what_it_is(name: str) -> None:
    """Search results and lists of pages show its summary."""
    page = (DOCS / f"{name}.md").read_text("utf-8")
    front = page.split("---\n")[1]

    assert re.search(r"^summary: .+\.$", front, re.M), (
        f"docs/{name}.md: write a line in the front matter, "
        '"summary: ...", that is a sentence'
    )


def test_the_table_of_silent_failures_has_every_section() -> None:
    """A row has the id that its section had, and a link to it."""
    index = (DOCS / "guides/silent_failures.md").read_text("utf-8")
    rows = {*re.findall(r"\((\S+#(\S+))\)\]\{#\2 \.moved\}", index)}
    sections = {
        (f"silent_failures/{path.stem}.md#{name}", name)
        for path in DOCS.glob("guides/silent_failures/*.md")
        for title in re.findall("^## (.*)$", path.read_text("utf-8"), re.M)
        for name in [book.section_id(title)]
    }

    assert len(sections) == 31
    assert rows == sections


@pytest.mark.parametrize("at", range(len(NAMES)), ids=NAMES)
def test_what_a_page_needs_comes_before_it(at: int) -> None:
    """Who follows the map has read what a page builds on."""
    needs = book.about(NAMES[at])["needs"].split(", ")
    later = [page for page in needs if page in NAMES[at:]]

    assert not later, (
        f"docs/problems/{NAMES[at]}.md needs {later}, which come later in "
        "PARTS in src/shardbook/problems/__init__.py"
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_page_shows_and_runs_the_tested_file(name: str) -> None:
    """Starter, solution and what the cells run are one file."""
    text = page_of(name)
    for block in (
        f"\n```{{attempt}} {name}\n```\n",
        f"\n```{{solution}} {name}\n```\n",
        f"\nfrom shardbook.problems import {name} as solution\n",
    ):
        assert block in text, f"docs/problems/{name}.md: write\n{block}"


@pytest.mark.parametrize("name", NAMES)
def test_the_code_of_a_page_is_formatted(name: str, tmp_path: Path) -> None:
    """Each cell is as ruff formats it, in 76 columns."""
    for number, code in enumerate(CELL.findall(page_of(name)), 1):
        (tmp_path / f"cell_{number}.py").write_text(code, "utf-8")
        long = [line for line in code.splitlines() if len(line) > 76]
        assert long == [], "break these lines after 76 columns"
    settings = ("--config", ROOT / "pyproject.toml")
    result = subprocess.run(
        (sys.executable, "-m", "ruff", "format", "--diff", *settings, "."),
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )

    assert result.stdout == "", f"format these cells:\n{result.stdout}"


@pytest.mark.parametrize("name", NAMES)
def test_a_solution_stands_alone(name: str) -> None:
    """Solution and starter run with jax, numpy, flax and what it needs."""
    path = ROOT / "src" / "shardbook" / "problems" / f"{name}.py"
    text = path.read_text("utf-8")
    found = set()
    for node in ast.walk(ast.parse(text + attempt_files.starter(name))):
        if isinstance(node, ast.Import):
            found |= {each.name.partition(".")[0] for each in node.names}
        if isinstance(node, ast.ImportFrom):
            # What is beside the file has no name of its own.
            module = "" if node.level else str(node.module)
            found.add(module.partition(".")[0])
    known = {"jax", "flax", "numpy", "optax", "orbax"}
    foreign = found - known - sys.stdlib_module_names

    assert not foreign, f"{path}: do without {foreign}"
    assert text.count("    # --- solution ---\n") == 1, (
        f'{path}: write the line "    # --- solution ---" once, where the '
        "reader's part begins"
    )
