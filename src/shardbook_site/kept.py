"""Keep what cells put out, for builds in which nothing of it has changed.

A page runs again unless all is as it was that its outputs may depend on:
its cells and metadata, what is installed, variables and compilers, and
the files of the repository. Of ROOMS and of what only some pages open,
these are the files that the page's kernel has opened. A page that starts
another process always runs, because nobody knows what that opens.
"""

import hashlib
import json
import os
import platform
import shutil
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import distributions
from importlib.util import source_from_cache
from pathlib import Path
from typing import Any

from nbformat import NotebookNode, from_dict

from shardbook_site.noted import code_cells

# Of these, a page depends on what its kernel has imported.
ROOMS = ("shardbook/problems", "shardbook/inputs", "shardgrade/checks")
# Of variables, those that begin so: what Python, jax, XLA and compilers
# read, and how wide a table is.
VARIABLES = (
    *("PYTHON", "JAX_", "XLA_", "TF_", "LIBTPU", "TPU_", "CUDA", "OMP_"),
    *("LD_LIBRARY_PATH", "LANG", "LC_", "TZ", "COLUMNS", "LINES"),
)
COMPILERS = ("cc", "gcc", "clang", "nvcc", "ptxas")


def digest(text: bytes) -> str:
    """Tell a text from any other."""
    return hashlib.sha256(text).hexdigest()[:32]


def files_of(root: Path) -> Iterator[Path]:
    """List the files of the repository that all pages depend on."""
    yield root / "conf.py"
    rooms = [root / "src" / name for name in ROOMS]
    for folder in (root / "src", root / "docs" / "_chips"):
        for path in sorted(folder.rglob("*")):
            mine = any(path.is_relative_to(room) for room in rooms)
            if path.is_file() and path.suffix != ".pyc" and not mine:
                yield path


def surroundings(root: Path, flags: str) -> str:
    """Tell what all pages depend on from what it was before.

    Args:
        root: The folder of the repository.
        flags: What is added to ``XLA_FLAGS`` for kernels.
    """
    packages = (
        (each.name, each.version, each.read_text("direct_url.json") or "")
        for each in distributions()
    )
    about = {
        "python": sys.version,
        "machine": [platform.platform(), os.cpu_count()],
        "packages": sorted(packages),
        "flags": flags,
        "variables": {
            name: value
            for name, value in os.environ.items()
            if name.startswith(VARIABLES)
        },
        "compilers": [shutil.which(name) for name in COMPILERS],
        "files": _digests(root, files_of(root)),
    }
    return digest(json.dumps(about, sort_keys=True).encode())


def _digests(root: Path, paths: Iterable[Path]) -> dict[str, str]:
    """Give the digest of each file, by its path; a missing one has none."""
    return {
        str(path.relative_to(root)): (
            digest(path.read_bytes()) if path.is_file() else ""
        )
        for path in paths
    }


class Kept:
    """What pages have put out in earlier builds.

    Args:
        folder: Where it is kept.
        root: The folder of the repository.
        flags: What is added to ``XLA_FLAGS`` for kernels.
    """

    def __init__(self, folder: Path, root: Path, flags: str) -> None:
        self.folder, self.root = folder, root
        self._surroundings = surroundings(root, flags)
        folder.mkdir(parents=True, exist_ok=True)
        self._start = self._touched(folder)

    @staticmethod
    def _touched(path: Path) -> int:
        """Note that a file is of use now; give the time of that."""
        os.utime(path)
        return path.stat().st_mtime_ns

    def file_of(self, notebook: NotebookNode, folder: str) -> Path:
        """Name the file for a page, before it runs in a folder."""
        # Where the cells are changes with the prose.
        metadata = {**notebook.metadata, "source_map": None}
        cells = [(c.source, c.metadata) for c in code_cells(notebook)]
        about = [self._surroundings, folder, metadata, cells]
        text = json.dumps(about, sort_keys=True, default=str)
        return self.folder / f"{digest(text.encode())}.json"

    def restore(self, file: Path, notebook: NotebookNode) -> bool:
        """Give a page the outputs that were kept; tell whether there are.

        Not if a file has changed that the page had opened.
        """
        try:
            kept = json.loads(file.read_text("utf-8"))
        # A build that was killed may have written a part.
        except (FileNotFoundError, ValueError):
            return False
        opened = [self.root / name for name in kept["opened"]]
        if kept["opened"] != _digests(self.root, opened):
            return False
        for cell, (count, outputs) in zip(
            code_cells(notebook), kept["cells"], strict=True
        ):
            cell.execution_count = count
            cell.outputs = from_dict(outputs)
        notebook.metadata["language_info"] = from_dict(kept["language"])
        self._touched(file)
        return True

    def keep(self, file: Path, notebook: NotebookNode, trace: Path) -> None:
        """Keep the outputs of a page, unless its kernel started a process.

        Args:
            file: Where to keep them.
            notebook: The page after it ran.
            trace: What ``record_opened`` of kernel_server wrote, if the
                kernel was forked from there.
        """
        if not trace.exists():
            return
        names = [*map(json.loads, trace.read_text("utf-8").splitlines())]
        if None in names:
            return
        kept = {
            "opened": _digests(self.root, sorted(self._own(names))),
            "language": notebook.metadata.get("language_info", {}),
            "cells": [
                (cell.execution_count, cell.outputs)
                for cell in code_cells(notebook)
            ],
        }
        file.write_text(json.dumps(kept), "utf-8")

    def _own(self, names: Iterable[str]) -> set[Path]:
        """Choose the files of the repository, sources for what is compiled.

        What is installed may be below its folder, and so is the book.
        """
        built = self.root / "docs" / "_build"
        paths = {Path(name) for name in names}
        return {
            Path(source_from_cache(path)) if path.suffix == ".pyc" else path
            for path in paths
            if path.is_relative_to(self.root)
            and not path.is_relative_to(sys.prefix)
            and not path.is_relative_to(built)
        }

    def remove_old(self) -> None:
        """Remove what this build had no use for."""
        for file in self.folder.glob("*.json"):
            if file.stat().st_mtime_ns < self._start:
                file.unlink()


def title_of(notebook: NotebookNode) -> Any:
    """Give the title of a page, to name it in the log."""
    text = "\n".join(c.source for c in notebook.cells if "source" in c)
    titles = (x[2:] for x in text.splitlines() if x.startswith("# "))
    return next(titles, "a page")
