"""Where in the reader's code an instruction comes from."""

import re
import sysconfig
from collections.abc import Iterable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

# Code that readers did not write.
LIBRARIES = ("cloudpickle", "flax", "jax", "jaxlib", "optax")


# --- Where it comes from ---


def direction_of(op_name: str) -> str:
    """Tell forward from backward by the path of transformations."""
    words = []
    # A combined instruction has the paths of its parts.
    for part in op_name.split(":"):
        if "rematted_computation" in part:
            words.append("rematerialized")
        elif "transpose(" in part:
            words.append("backward")
        elif "jvp(" in part:
            words.append("forward")
    return ", ".join(dict.fromkeys(words))


def _is_ours(file: str) -> bool:
    """Tell whether a file is one of these tools."""
    return Path(__file__).parent in Path(file).parents


@cache
def _is_library(file: str) -> bool:
    """Tell whether a file is of a library, or of Python itself."""
    path = Path(file)
    # What program() wraps around a function is not the reader's either.
    if _is_ours(file) or file.startswith("<frozen "):
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
        if not _is_library(each[0]) and each[0] != "<string>"
    ]
    own = [each for each in found if "site-packages" not in each[0]]
    return tuple(f"{file}:{line}" for file, line in own or found)


class Frame(NamedTuple):
    """A line that called what an instruction comes from.

    Attributes:
        place: The file and the number of the line, ``"train.py:31"`` with
            its folder.
        function: The name of the function that the line is in.
    """

    place: str
    function: str


class Sources:
    """The tables of files, functions and lines in a program's head."""

    def __init__(self, head: str) -> None:
        files = _names(head, "FileNames")
        functions = _names(head, "FunctionNames")
        self._places = {
            number: (files[file], functions.get(function, ""), line)
            for number, file, function, line in re.findall(
                r"^(\d+) \{file_name_id=(\d+) function_name_id=(\d+) "
                r".*?\bline=(\d+)",
                head,
                re.M,
            )
        }
        self._frames = {
            number: (place, parent)
            for number, place, parent in re.findall(
                r"^(\d+) \{file_location_id=(\d+) parent_frame_id=(\d+)",
                head,
                re.M,
            )
        }

    def of(self, text: str) -> str:
        """Give the innermost line that is of no library."""
        return next((each.place for each in self.frames(text)), "")

    def frames(self, text: str) -> tuple[Frame, ...]:
        """Give the lines of no library, from the innermost outwards."""
        number = re.search(r"stack_frame_id=(\d+)", text)
        frame = number[1] if number else ""
        found: dict[str, Frame] = {}
        while frame in self._frames:
            place, parent = self._frames[frame]
            file, function, line = self._places[place]
            # Who calls program() is no caller of what it lowers.
            if found and _is_ours(file):
                break
            if not _is_library(file):
                at = f"{file}:{line}"
                short = function.rpartition("<locals>.")[2]
                # The call of a gradient is noted several times.
                found.setdefault(at, Frame(at, short))
            # They are counted from one, parents from two.
            frame = str(int(parent) - 1)
        return tuple(found.values())


def _names(head: str, title: str) -> dict[str, str]:
    """Read a table of quoted names."""
    table = head.partition(f"{title}\n")[2].partition("\n\n")[0]
    return dict(re.findall(r'^(\d+) "(.*)"$', table, re.M))
