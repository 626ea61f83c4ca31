"""Read the attempts of a problem: its table of edits, and its files.

``tests/attempts/NAME/edits.toml`` has the attempts that differ from the
solution in a few places. Its headings are ``[right.ATTEMPT]`` and
``[STATUS.CHECK.ATTEMPT]``, with the name of the check: what the grader must
find. Files in ``right/`` and ``wrong/`` beside it are the attempts that are
written in another way; the first line of a wrong one is a comment with its
status and its check.
"""

import ast
import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shardgrade.jobs.job import Job
from shardgrade.reader import attempt_files

TESTS = Path(__file__).parents[1]
SOLUTIONS = TESTS.parent / "src/shardbook/problems"


@dataclass(frozen=True)
class Attempt:
    """An attempt at a problem, and what the grader must say of it.

    Attributes:
        problem: The name of the problem.
        name: The name of the attempt.
        verdict: ``"right"``, or a status and the name of the check that
            must catch the attempt, as in ``"wrong: slopes"``.
        text: The program.
        says: Words that the verdict must have in its reason, in what it got
            or expected, or in a remark.
    """

    problem: str
    name: str
    verdict: str
    text: str = field(repr=False)
    says: str = ""

    def __str__(self) -> str:
        """Name the problem and the attempt."""
        return f"{self.problem}/{self.name}"


def attempts(problem: str) -> list[Attempt]:
    """Read all attempts at a problem, those of the table first."""
    folder = TESTS / "attempts" / problem
    files = [*_files(folder)]
    found = [
        *_edits(folder, {file.name: file.text for file in files}),
        *files,
    ]
    names = [attempt.name for attempt in found]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"{folder}: two attempts are called {twice}")
    return found


def _files(folder: Path) -> Iterator[Attempt]:
    for path in sorted(folder.glob("*/*.py")):
        text = path.read_text("utf-8")
        verdict = "right"
        if path.parent.name == "wrong":
            verdict = text.partition("\n")[0].removeprefix("# ")
        yield Attempt(folder.name, path.stem, verdict, text)


def _edits(folder: Path, files: dict[str, str]) -> Iterator[Attempt]:
    table = folder / "edits.toml"
    try:
        entries = dict(_entries(tomllib.loads(table.read_text("utf-8"))))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{table} is not TOML: {error}") from None
    solution = (SOLUTIONS / f"{folder.name}.py").read_text("utf-8")
    # What is handed out can be code to repair, and then has edits too.
    files = files | {"starter": attempt_files.starter(folder.name)}

    def text(name: str) -> str:
        if name in files:
            return files[name]
        _, entry = entries[name]
        base = text(entry["base"]) if "base" in entry else solution
        return edited(base, entry["edits"], f"{folder.name}: {name}")

    for name, (verdict, entry) in entries.items():
        says = entry.get("says", "")
        yield Attempt(folder.name, name, verdict, text(name), says)


def _entries(
    table: dict[str, Any],
) -> Iterator[tuple[str, tuple[str, dict[str, Any]]]]:
    """Find each attempt's name, verdict and entry in a table."""
    for name, entry in table.pop("right", {}).items():
        yield name, ("right", entry)
    for status, checks in table.items():
        for check, group in checks.items():
            for name, entry in group.items():
                yield name, (f"{status}: {check}", entry)


def edited(text: str, edits: list[list[str]], attempt: str) -> str:
    """Replace each old text by its new one, all at once.

    Args:
        text: The program to edit.
        edits: Pairs of an old text, which must occur exactly once in the
            program, and the text to put in its place.
        attempt: What to call the attempt in an error.

    Returns:
        The edited program.

    Raises:
        ValueError: If an old text is not there exactly once, or overlaps
            with another, or if the edited program does not parse.
    """
    new = dict(edits)
    if not new:
        return text
    for old in new:
        if (count := text.count(old)) != 1:
            raise ValueError(
                f"{attempt}: a text to edit occurs {count} times in the "
                "program, but must occur once. Adapt the edit to the "
                f"program as it is now:\n{old}"
            )
    olds = "|".join(map(re.escape, new))
    result, count = re.subn(olds, lambda found: new[found[0]], text)
    if count != len(new):
        raise ValueError(f"{attempt}: the texts of two edits overlap")
    try:
        ast.parse(result)
    except SyntaxError as error:
        line = (error.text or "").rstrip()
        raise ValueError(
            f"{attempt}: after the edits, the program does not parse: "
            f"{error.msg}, in its line {error.lineno}:\n{line}\n"
            "In TOML, '...' keeps \\n as two characters, and \"...\" makes "
            "it a new line"
        ) from None
    return result


def jobs(
    attempts: Iterable[Attempt], folder: Path, devices: int = 8
) -> list[Job]:
    """Write attempts to files, and make the jobs that grade them.

    Args:
        attempts: The attempts.
        folder: An empty folder to write them to.
        devices: How many devices to grade on.

    Returns:
        A job for each attempt, which is called ``PROBLEM/ATTEMPT``.
    """
    found = []
    for attempt in attempts:
        path = folder / attempt.problem / f"{attempt.name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(attempt.text, "utf-8")
        job = Job(attempt.problem, str(attempt), path, devices=devices)
        found.append(job)
    return found
