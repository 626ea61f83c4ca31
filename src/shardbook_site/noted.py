"""Show what a page printed elsewhere, where it can't run.

The front matter of such a page names the modules that it needs beside the
others, as ``runs_with``, and the file with what was noted, as ``noted``.
"""

import hashlib
import json
import os
import platform
from datetime import date
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from nbclient.exceptions import CellTimeoutError
from nbformat import NotebookNode, from_dict, v4

# Set by "nox -s elsewhere", which writes what is noted.
WRITE = "SHARDBOOK_NOTE"
PACKAGES = ("jax", "flax", "libtpu", "jax-cuda12-plugin")


class StaleNoteError(CellTimeoutError):
    """The page has changed: reported as a cell that hangs is."""


def is_noted(notebook: NotebookNode) -> bool:
    """Tell whether a page shows what was noted, because it can't run."""
    return not all(map(find_spec, notebook.metadata.get("runs_with", ())))


def show(notebook: NotebookNode, folder: str) -> None:
    """Give the cells of a page the outputs that were noted."""
    note = json.loads(_file(notebook, folder).read_text("utf-8"))
    cells = code_cells(notebook)
    if note["cells"] != [digest(cell) for cell in cells]:
        raise StaleNoteError(
            "this page has changed since its outputs were noted: run "
            "nox -s elsewhere"
        )
    for cell, outputs in zip(cells, note["outputs"], strict=True):
        cell.outputs = from_dict(outputs)
    needed = " and ".join(notebook.metadata["runs_with"])
    cells[0].outputs.insert(
        0,
        v4.new_output(
            "stream",
            text=(
                f"Not run in this build, which lacks {needed}.\n"
                f"Noted on {note['noted']}.\n"
            ),
        ),
    )


def write(notebook: NotebookNode, folder: str) -> None:
    """Note the outputs of a page that ran, if that is asked for."""
    if "runs_with" not in notebook.metadata or WRITE not in os.environ:
        return
    cells = code_cells(notebook)
    note = {
        "noted": today(),
        "cells": [digest(cell) for cell in cells],
        "outputs": [cell.outputs for cell in cells],
    }
    text = json.dumps(note, indent=1, ensure_ascii=False)
    _file(notebook, folder).write_text(f"{text}\n", "utf-8")


def today() -> str:
    """Say when something is noted, and with which versions."""
    versions = (f"{name} {version(name)}" for name in PACKAGES)
    python = f"Python {platform.python_version()}"
    return ", ".join((f"{date.today()}, {python}", *versions))


def _file(notebook: NotebookNode, folder: str) -> Path:
    return Path(folder, notebook.metadata["noted"])


def code_cells(notebook: NotebookNode) -> list[Any]:
    """Return the code cells of a page."""
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def digest(cell: Any) -> str:
    """Tell the code of a cell from any other."""
    return hashlib.sha256(cell.source.encode()).hexdigest()[:16]
