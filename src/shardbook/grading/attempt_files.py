"""The files of a reader's attempts, and the texts they begin with."""

import ast
import filecmp
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from shardbook.problems import NAMES

FOLDER = Path("attempts")
# In it, a copy of each attempt that was right.
SOLVED = ".solved"
MARK = "    # --- solution ---\n"
HERE = Path(__file__).parents[1]


def about(name: str) -> dict[str, str]:
    """Return the front matter of a problem's page."""
    # The pages are in the package in a wheel, and in docs/ in a clone.
    pages = (HERE / "pages", HERE.parents[1] / "docs" / "problems")
    folder = next(folder for folder in pages if folder.is_dir())
    front = (folder / f"{name}.md").read_text("utf-8").split("---\n")[1]
    return dict(
        line.split(": ", 1) for line in front.splitlines() if ": " in line
    )


def solution(name: str) -> str:
    """Return the text of a problem's solution."""
    return (HERE / "problems" / f"{name}.py").read_text("utf-8")


def starter(name: str) -> str:
    """Return the text that an attempt begins with."""
    given, mark, _ = solution(name).partition(MARK)
    assert mark, f"{name} has no line {MARK.strip()!r}"
    return f"{given}    raise NotImplementedError\n"


def start(name: str, folder: Path = FOLDER) -> Path:
    """Write the starter of a problem, and return its path.

    Raises:
        FileExistsError: If the file exists; it is left as it is.
        OSError: If the file can't be written.
    """
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(0, "It is not a folder", str(folder))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.py"
    with path.open("x", encoding="utf-8") as file:
        file.write(starter(name))
    return path


def problem_of(path: Path) -> str | None:
    """Return the problem that a file's name, or a function in it, names."""
    if path.stem in NAMES:
        return path.stem
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None
    defined = {
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name in NAMES
    }
    return defined.pop() if len(defined) == 1 else None


def started(folder: Path = FOLDER) -> Iterator[Path]:
    """Yield the attempts in a folder, in the order of the map."""
    for name in NAMES:
        path = folder / f"{name}.py"
        if os.path.lexists(path):
            yield path


def solved(folder: Path = FOLDER) -> set[str]:
    """Return the problems that the files solve, as they are now."""
    return {
        path.stem
        for path in started(folder)
        if path.is_file()
        and (folder / SOLVED / path.name).is_file()
        and filecmp.cmp(path, folder / SOLVED / path.name, shallow=False)
    }


def note_solved(path: Path, folder: Path = FOLDER) -> None:
    """Remember that an attempt is right as it is now, if in the folder."""
    here = path.parent.absolute() == folder.absolute()
    if here and path.stem in NAMES:
        (folder / SOLVED).mkdir(exist_ok=True)
        shutil.copyfile(path, folder / SOLVED / path.name)
