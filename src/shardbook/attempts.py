"""The files of a reader's attempts, and the texts they begin with."""

import ast
import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from shardbook.problems import NAMES

FOLDER = Path("attempts")
# What the reader solved here: for each problem, the file that was right.
SOLVED = ".solved.json"
MARK = "    # --- solution ---\n"
HERE = Path(__file__).parent


@dataclass(frozen=True)
class Problem:
    """A problem, as its page describes it.

    Attributes:
        name: The function to write.
        title: The title of the page.
        difficulty: ``"easy"``, ``"medium"`` or ``"hard"``.
        summary: What one will see, in a sentence.
    """

    name: str
    title: str
    difficulty: str
    summary: str


def problem(name: str) -> Problem:
    """Read what the page of a problem says of it."""
    # In a wheel the pages are beside the code; in a clone they are not.
    pages = (HERE / "pages", HERE.parents[1] / "docs" / "problems")
    page = (
        next(folder for folder in pages if folder.is_dir()) / f"{name}.md"
    )
    _, front, text = page.read_text("utf-8").split("---\n", 2)
    facts = dict(
        line.split(": ", 1) for line in front.splitlines() if ": " in line
    )
    title = next(
        line[2:] for line in text.splitlines() if line.startswith("# ")
    )
    return Problem(name, title, facts["difficulty"], facts["summary"])


def solution(name: str) -> str:
    """Give the text of a problem's solution."""
    return (HERE / "problems" / f"{name}.py").read_text("utf-8")


def starter(name: str) -> str:
    """Give the text that an attempt begins with."""
    given, mark, _ = solution(name).partition(MARK)
    assert mark, f"{name} has no line {MARK.strip()!r}"
    return f"{given}    raise NotImplementedError\n"


def start(name: str, folder: Path = FOLDER) -> Path:
    """Write the starter of a problem.

    Args:
        name: The problem.
        folder: Where to write it.

    Returns:
        The file.

    Raises:
        FileExistsError: If there is such a file; it is left as it is.
        OSError: If it can't be written.
    """
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(0, "it is not a folder", str(folder))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.py"
    with path.open("x", encoding="utf-8") as file:
        file.write(starter(name))
    return path


def problem_of(path: Path) -> str | None:
    """Tell which problem a file is about, by its name or by its text."""
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


def written(folder: Path = FOLDER) -> Iterator[Path]:
    """Give the attempts in a folder, in the order of the map."""
    for name in NAMES:
        path = folder / f"{name}.py"
        if path.exists() or path.is_symlink():
            yield path


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _read_solved(folder: Path) -> dict[str, str]:
    try:
        return dict(json.loads((folder / SOLVED).read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        return {}


def solved(folder: Path = FOLDER) -> set[str]:
    """Tell which problems are solved by the files as they are now."""
    found = set()
    for name, digest in _read_solved(folder).items():
        path = folder / f"{name}.py"
        if path.is_file() and _digest(path) == digest:
            found.add(name)
    return found


def note_solved(paths: Iterable[Path], folder: Path = FOLDER) -> None:
    """Remember which attempts in the folder are right, as they are now."""
    known = _read_solved(folder)
    for path in paths:
        if path.parent == folder and path.stem in NAMES:
            known[path.stem] = _digest(path)
    if known:
        text = json.dumps(known, indent=1)
        # Whole or not at all: another may read it now, or write it.
        with TemporaryDirectory(dir=folder, prefix=".") as draft:
            whole = Path(draft, SOLVED)
            whole.write_text(f"{text}\n", encoding="utf-8")
            whole.replace(folder / SOLVED)
