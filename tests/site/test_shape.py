"""A problem is one name in a few rooms, and the map leads to each."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from shardbook.problems import NAMES

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "docs" / "_extensions"))

from cells import CELL  # noqa: E402

# Where a problem is, beside its tests.
ROOMS = (
    "docs/problems/{}.md",
    "src/shardbook/checks/{}.py",
    "src/shardbook/problems/{}.py",
)
HEADINGS = [
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


def page_of(name: str) -> str:
    """Read the page of a problem."""
    return (ROOT / "docs" / "problems" / f"{name}.md").read_text("utf-8")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("room", [*ROOMS, "tests/problems/test_{}.py"])
def test_a_problem_is_complete(name: str, room: str) -> None:
    """Each problem of the map has a page, checks, a solution, tests."""
    path = ROOT / room.format(name)

    assert path.is_file(), f"{name} lacks {path.relative_to(ROOT)}"


@pytest.mark.parametrize("room", ROOMS)
def test_no_problem_is_off_the_map(room: str) -> None:
    """What lies in a room is on the map in shardbook.problems."""
    found = {path.stem for path in ROOT.glob(room.format("*"))}

    assert found - {"__init__"} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_page_has_the_same_headings(name: str) -> None:
    """Readers find their way, since all pages are alike."""
    text = CELL.sub("", page_of(name))

    assert re.findall(r"^## (.*)$", text, re.M) == HEADINGS


@pytest.mark.parametrize("name", NAMES)
def test_a_page_says_what_it_is(name: str) -> None:
    """The front matter has what the map and the page's top show."""
    front = page_of(name).split("---\n")[1]
    facts = dict(line.split(": ", 1) for line in front.splitlines())

    assert facts["file_format"] == "mystnb"
    assert facts["difficulty"] in {"easy", "medium", "hard"}
    assert facts["category"]
    assert facts["tags"]
    assert facts["summary"].endswith(".")


@pytest.mark.parametrize("name", NAMES)
def test_a_page_shows_the_tested_file(name: str) -> None:
    """The solution is included, and the starter made from it."""
    text = page_of(name)

    assert text.count(f"```{{solution}} {name}\n```\n") == 1
    assert text.count(f"```{{attempt}} {name}\n```\n") == 1
    assert f"from shardbook.problems import {name} as solution" in text


@pytest.mark.parametrize("name", NAMES)
def test_the_code_fits_a_window(name: str) -> None:
    """No line of code on a page is longer than 76 columns."""
    code = "\n".join(CELL.findall(page_of(name)))

    assert [line for line in code.splitlines() if len(line) > 76] == []


@pytest.mark.parametrize("name", NAMES)
def test_the_code_of_a_page_is_formatted(name: str) -> None:
    """Each cell is as ruff formats it."""
    for code in CELL.findall(page_of(name)):
        result = subprocess.run(
            (sys.executable, "-m", "ruff", "format", "--diff", "-"),
            input=code,
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.stdout == ""


@pytest.mark.parametrize("name", NAMES)
def test_a_solution_stands_alone(name: str) -> None:
    """It imports jax, flax, numpy and the standard library, and runs."""
    path = ROOT / "src" / "shardbook" / "problems" / f"{name}.py"
    text = path.read_text("utf-8")
    found = re.findall(r"^(?:from|import) (\w+)", text, re.M)

    assert set(found) <= {"jax", "flax", "numpy"} | sys.stdlib_module_names
    assert text.count("    # --- solution ---\n") == 1
    # -I: no folder of ours, and no environment, is on the path.
    subprocess.run((sys.executable, "-I", path), check=True, timeout=60)


def test_the_front_page_leads_everywhere() -> None:
    """The front page has the map, the contents and the reference."""
    text = (ROOT / "docs" / "index.md").read_text("utf-8")

    assert "```{problem-map}" in text
    assert "```{problem-contents}" in text
    assert "reference/index" in text


def test_read_the_docs_takes_the_configuration() -> None:
    """Read the Docs' own schema accepts the file, and it is complete."""
    command = (sys.executable, "-m", "check_jsonschema")
    schema = "--builtin-schema=vendor.readthedocs"
    file = ROOT / ".readthedocs.yaml"
    result = subprocess.run(
        (*command, schema, file),
        capture_output=True,
        text=True,
        check=False,
    )

    assert result.returncode == 0, result.stdout
    # The schema does not ask for it, but a build without it is refused.
    assert "configuration: conf.py" in file.read_text()


def test_read_the_docs_runs_what_a_writer_runs() -> None:
    """It builds by "nox -s docs", into the folder that it publishes."""
    text = (ROOT / ".readthedocs.yaml").read_text()

    assert '-s docs -- --out "$READTHEDOCS_OUTPUT/html"' in text
    assert '    python: "3.13"' in text
    assert "--require-hashes -r locks/3.13.txt" in text
    assert "fail_on_warning: true" in text


def test_every_python_that_is_promised() -> None:
    """The classifiers and requires-python agree."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())[
        "project"
    ]
    pythons = re.findall(r"Python :: (3\.\d+)", str(project["classifiers"]))

    assert project["requires-python"] == f">={pythons[0]}"
    assert f"{sys.version_info[0]}.{sys.version_info[1]}" in pythons
