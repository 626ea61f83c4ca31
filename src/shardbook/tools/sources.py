"""Where in the reader's code an instruction comes from."""

import re
import sysconfig
from functools import cache
from importlib.util import find_spec
from pathlib import Path

# Code that readers did not write.
LIBRARIES = ("flax", "jax", "jaxlib", "optax")


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


@cache
def _is_library(file: str) -> bool:
    """Tell whether a file is of a library, or of Python itself."""
    path, here = Path(file), Path(__file__)
    # What program() wraps around a function is not the reader's either.
    if path.parent == here.parent:
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


class Sources:
    """The tables of files and lines in a program's text."""

    def __init__(self, text: str) -> None:
        head = text.partition("\n\n\n")[0]
        # Another table has quoted names too, those of functions.
        names = head.partition("FileNames\n")[2].partition("\n\n")[0]
        self._files = dict(re.findall(r'^(\d+) "(.*)"$', names, re.M))
        self._places = {
            number: (file, line)
            for number, file, line in re.findall(
                r"^(\d+) \{file_name_id=(\d+) .*?\bline=(\d+)", head, re.M
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

    def of(self, line: str) -> str:
        """Give the innermost line that is of no library."""
        found = re.search(r"stack_frame_id=(\d+)", line)
        frame = found[1] if found else ""
        while frame in self._frames:
            place, parent = self._frames[frame]
            file, number = self._places[place]
            if not _is_library(self._files[file]):
                return f"{self._files[file]}:{number}"
            # They are counted from one, parents from two.
            frame = str(int(parent) - 1)
        return ""
