"""How a line of the reader's code is named."""

import sys
from collections.abc import Iterable
from pathlib import Path


def name_of(place: str, depth: int = 1) -> str:
    """Name a line by its file, with as many parts of the path as asked.

    Args:
        place: The file and the number of the line, ``"train.py:31"`` with
            its folder.
        depth: How many parts of the path, the last of which is the file.

    Returns:
        A name such as ``"train.py:31"``, or ``"In[3]:2"`` for the cell of
        a notebook, whose file has a number that means nothing to readers.
    """
    file, _, line = place.rpartition(":")
    name = _cell(file) or str(Path(*Path(file).parts[-depth:]))
    return f"{name}:{line}"


def short(places: Iterable[str]) -> dict[str, str]:
    """Name files by as few of their folders as tell them apart."""
    files = {each: Path(each.rpartition(":")[0]) for each in places}
    names = {}
    for place, file in files.items():
        depth = 1
        while any(
            other != file and other.parts[-depth:] == file.parts[-depth:]
            for other in files.values()
        ):
            depth += 1
        names[place] = name_of(place, depth)
    return names


def _cell(file: str) -> str:
    """Name the cell of a notebook that a file stands for, if it does."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    named = shell.compile.format_code_name(file) if shell else None
    return str(named[1]) if named else ""
