"""Lines of code: which are the reader's own, and how they are named."""

import linecache
import sys
import sysconfig
from collections.abc import Iterable
from functools import cache
from importlib.util import find_spec
from pathlib import Path

# How much of a line is shown.
_LONGEST = 56
# Code that readers did not write.
LIBRARIES = ("cloudpickle", "flax", "jax", "jaxlib", "optax")

# --- Whose they are ---


@cache
def is_ours(file: str) -> bool:
    """Tell whether a file is one of these tools."""
    return Path(__file__).parent in Path(file).parents


@cache
def is_library(file: str) -> bool:
    """Tell whether a file is of a library, or of Python itself."""
    path = Path(file)
    # What program() wraps around a function is not the reader's either.
    if is_ours(file) or file.startswith("<frozen "):
        return True
    folders = [
        Path(spec.origin).parent
        for name in LIBRARIES
        if (spec := find_spec(name)) and spec.origin
    ]
    if any(folder in path.parents for folder in folders):
        return True
    python = Path(sysconfig.get_path("stdlib"))
    return python in path.parents and "site-packages" not in path.parts


def lines_of_reader(
    frames: Iterable[tuple[str, int | str]],
) -> tuple[str, ...]:
    """Find the reader's own lines.

    Args:
        frames: Files and numbers of lines, from the innermost outwards.

    Returns:
        Those of no library, without those of other installed packages if
        there are any, as ``"train.py:31"`` with its folder.
    """
    found = [
        each
        for each in frames
        if not is_library(each[0]) and each[0] != "<string>"
    ]
    own = [each for each in found if "site-packages" not in each[0]]
    return tuple(f"{file}:{line}" for file, line in own or found)


# --- How they are named ---


def name_of(line: str, depth: int = 1) -> str:
    """Name a line by its file, with as many parts of the path as asked.

    Args:
        line: The file and the number of the line, ``"train.py:31"`` with
            its folder.
        depth: How many parts of the path, the last of which is the file.

    Returns:
        A name such as ``"train.py:31"``, or ``"In[3]:2"`` for the cell of
        a notebook, whose file has a number that means nothing to readers.
    """
    file, _, number = line.rpartition(":")
    name = _cell(file) or str(Path(*Path(file).parts[-depth:]))
    return f"{name}:{number}"


def source_of(line: str) -> str:
    """Give the text of a line, without the end of a long one."""
    file, _, number = line.rpartition(":")
    text = linecache.getline(file, int(number or 0)).strip()
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def quoted(line: str) -> str:
    """Name a line, if there is one, and write its code behind."""
    where = name_of(line) if line else "no line of yours"
    return f"{where}  {source_of(line)}".rstrip()


def short(lines: Iterable[str]) -> dict[str, str]:
    """Name files by as few of their folders as tell them apart."""
    files = {each: Path(each.rpartition(":")[0]) for each in lines}
    names = {}
    for line, file in files.items():
        depth = 1
        while any(
            other != file and other.parts[-depth:] == file.parts[-depth:]
            for other in files.values()
        ):
            depth += 1
        names[line] = name_of(line, depth)
    return names


def _cell(file: str) -> str:
    """Name the cell of a notebook that a file stands for, if it does."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    named = shell.compile.format_code_name(file) if shell else None
    return str(named[1]) if named else ""
