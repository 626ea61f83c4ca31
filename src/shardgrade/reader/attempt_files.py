"""The files of a reader's attempts, and what is noted beside them."""

import ast
import filecmp
import os
import shutil
from itertools import count
from pathlib import Path

from shardbook import problems
from shardbook.problems import NAMES

FOLDER = Path("attempts")
# In it, a copy of the last right attempt at each problem, and the number
# of hints that were shown.
PROGRESS = FOLDER / ".progress"
MARK = "    # --- solution ---\n"
ALL_SOLVED = f"All {len(NAMES)} problems are solved."
PROBLEMS = Path(problems.__file__).parent


def solution(name: str) -> str:
    """Return the text of a problem's solution."""
    return (PROBLEMS / f"{name}.py").read_text("utf-8")


def starter(name: str) -> str:
    """Return the text that an attempt begins with.

    That is the solution up to its mark, or a file in the folder starters
    where a problem hands out another text, such as code to repair.
    """
    handed_out = PROBLEMS / "starters" / f"{name}.py"
    if handed_out.is_file():
        return handed_out.read_text("utf-8")
    given, mark, _ = solution(name).partition(MARK)
    assert mark, f"{name} has no line {MARK.strip()!r}"
    return f"{given}    raise NotImplementedError\n"


def path_of(name: str) -> Path:
    """Return the file of the attempt at a problem."""
    return FOLDER / f"{name}.py"


def start(name: str, folder: Path | None = None) -> Path:
    """Write the starter of a problem, and return its path.

    Raises:
        FileExistsError: If the file exists; it is left as it is.
        OSError: If the file can't be written.
    """
    path = (folder or FOLDER) / f"{name}.py"
    if path.parent.exists() and not path.parent.is_dir():
        raise NotADirectoryError(0, "It is not a folder", str(path.parent))
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("x", encoding="utf-8") as file:
        file.write(starter(name))
    return path


def reset(name: str) -> Path:
    """Put the starter in the place of an attempt, and keep the attempt.

    Returns:
        Where the attempt is kept.

    Raises:
        FileNotFoundError: If there is no attempt.
    """
    path = path_of(name)
    kept = (path.with_suffix(f".{number}.bak") for number in count(1))
    backup = next(each for each in kept if not os.path.lexists(each))
    path.rename(backup)
    start(name)
    return backup


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


def started() -> list[Path]:
    """Return the attempts there are, in the order of the map."""
    return [path for path in map(path_of, NAMES) if os.path.lexists(path)]


def _noted(name: str) -> Path:
    return PROGRESS / f"{name}.py"


def state(name: str) -> str:
    """Return whether a problem is begun, solved, or edited since."""
    path, copy = path_of(name), _noted(name)
    if not copy.is_file():
        return "begun" if os.path.lexists(path) else ""
    edited = path.is_file() and not filecmp.cmp(path, copy, shallow=False)
    return "edited" if edited else "solved"


def solved() -> list[str]:
    """Return the problems that an attempt has solved, in order."""
    return [name for name in NAMES if _noted(name).is_file()]


def unsolved() -> list[str]:
    """Return the problems that no attempt has solved yet.

    They are in order, beginning after the one that was solved last.
    """
    done = solved()
    last = max(
        done,
        key=lambda name: _noted(name).stat().st_mtime_ns,
        default=NAMES[-1],
    )
    place = NAMES.index(last) + 1
    order = (*NAMES[place:], *NAMES[:place])
    return [name for name in order if name not in done]


def note_solved(name: str, path: Path) -> None:
    """Keep a copy of a right attempt, wherever the attempt is."""
    PROGRESS.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, _noted(name))


def next_hint(name: str, count: int) -> int:
    """Return which of a number of hints is next, from 0, and note it."""
    PROGRESS.mkdir(parents=True, exist_ok=True)
    with (PROGRESS / f"{name}.hints").open("a") as shown:
        shown.write(".")
        return (shown.tell() - 1) % count
