"""Whose lines of code are, and how they are named."""

import subprocess
import sys
from pathlib import Path

import pytest

import shardscope
from shardscope.lines import lines_of_reader, name_of, short

pytestmark = pytest.mark.newest

# What a notebook does, without a kernel.
NOTEBOOK = """\
from IPython.core.interactiveshell import InteractiveShell
from shardscope.lines import name_of

shell = InteractiveShell.instance()
shell.run_cell("1 + 1", store_history=True)
shell.run_cell("def half(x):\\n    return x / 2", store_history=True)
file = shell.user_ns["half"].__code__.co_filename
print(name_of(f"{file}:2"), name_of("/home/me/train.py:31"))
"""


def test_files_are_named_by_what_tells_them_apart() -> None:
    """By the file alone, unless another one has the same name."""
    assert name_of("/home/me/train.py:31") == "train.py:31"
    assert short(["/a/x/model.py:1", "/a/y/model.py:1", "/a/z.py:2"]) == {
        "/a/x/model.py:1": "x/model.py:1",
        "/a/y/model.py:1": "y/model.py:1",
        "/a/z.py:2": "z.py:2",
    }


def test_cells_are_named_by_their_numbers() -> None:
    """Their files have numbers that no reader knows."""
    done = subprocess.run(
        [sys.executable, "-c", NOTEBOOK],
        check=True,
        capture_output=True,
        text=True,
    )

    assert done.stdout.splitlines()[-1] == "In[2]:2 train.py:31"


def test_no_line_of_a_tool_is_the_readers() -> None:
    """Not even where a room has rooms inside."""
    folder = Path(shardscope.__path__[0])
    files = [*folder.rglob("*.py")]
    theirs = "/home/me/tools/lines.py"
    found = lines_of_reader((str(file), 1) for file in [*files, theirs])

    assert {len(file.relative_to(folder).parts) for file in files} == {1, 2}
    assert found == (f"{theirs}:1",)
