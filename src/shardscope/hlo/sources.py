"""Where in the reader's code an instruction comes from."""

import re
from typing import NamedTuple

from shardscope.lines import is_library, is_ours


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


class Frame(NamedTuple):
    """A line that called what an instruction comes from.

    Attributes:
        line: The file and the number of the line, ``"train.py:31"`` with
            its folder.
        function: The name of the function that the line is in.
    """

    line: str
    function: str


class Sources:
    """The tables of files, functions and lines in a program's head."""

    def __init__(self, head: str) -> None:
        files = _names(head, "FileNames")
        functions = _names(head, "FunctionNames")
        self._lines = {
            number: (files[file], functions.get(function, ""), line)
            for number, file, function, line in re.findall(
                r"^(\d+) \{file_name_id=(\d+) function_name_id=(\d+) "
                r".*?\bline=(\d+)",
                head,
                re.M,
            )
        }
        self._frames = {
            number: (line, parent)
            for number, line, parent in re.findall(
                r"^(\d+) \{file_location_id=(\d+) parent_frame_id=(\d+)",
                head,
                re.M,
            )
        }

    def of(self, text: str) -> str:
        """Give the innermost line that is of no library."""
        return next((each.line for each in self.frames(text)), "")

    def frames(self, text: str) -> tuple[Frame, ...]:
        """Give the lines of no library, from the innermost outwards."""
        found_id = re.search(r"stack_frame_id=(\d+)", text)
        frame = found_id[1] if found_id else ""
        found: dict[str, Frame] = {}
        while frame in self._frames:
            line, parent = self._frames[frame]
            file, function, number = self._lines[line]
            # Who calls program() is no caller of what it lowers.
            if found and is_ours(file):
                break
            if not is_library(file):
                at = f"{file}:{number}"
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
