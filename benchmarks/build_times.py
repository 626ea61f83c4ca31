"""How long the book takes to build, against what can't be saved.

Each figure is a ratio from one run, in which the builds take turns. What a
build can't save is Sphinx without execution, and the cells themselves in
one process, where no page finds what another has compiled. The last figure
is the time of all cores for a page, in imports of jax and flax.
"""

import os
import shutil
import sys
import tempfile
from contextlib import chdir
from pathlib import Path

from check_times import IMPORT
from timing import medians, seconds

from shardbook_site.cells import pages_that_run

ROOT = Path(__file__).parents[1]
ROUNDS = 1
# How often a page is edited.
EDITS = 3
# The page that is edited.
LARGEST = "problems/tree_mode_shard_map.md"
# Makes the cells of pages run in one process, a namespace for each page.
CELLS = """
import os, sys, warnings, jax
from shardbook_site.cells import CELL
from shardbook_site.execution import XLA_FLAGS
os.environ["XLA_FLAGS"] = XLA_FLAGS
os.chdir("docs")
warnings.simplefilter("ignore")
for page in sys.argv[1:]:
    names = {"__name__": "__main__"}
    jax.clear_caches()
    for code in CELL.findall(open(page, encoding="utf-8").read()):
        exec(compile(code, page, "exec"), names)
"""


def sphinx(*options: str) -> tuple[str, ...]:
    """Give the command that builds the book."""
    command = f"{sys.executable} -m sphinx -b html -c . -j auto"
    folders = "-d _build/doctrees docs _build/html"
    return (*command.split(), *options, *folders.split())


def measure(pages: list[str]) -> dict[str, float]:
    """Build the book in the folder that we are in, and again, edited."""
    one = Path("docs", LARGEST)

    def edit() -> float:
        one.write_text(one.read_text("utf-8") + "\nOne more line.\n")
        # As "nox -s docs -- --serve" builds it.
        return seconds(*sphinx())

    cells = (sys.executable, "-W", "ignore", "-c", CELLS)
    builds = medians(
        ROUNDS,
        {
            "cells": lambda: seconds(*cells, *pages),
            "no execution": lambda: seconds(
                *sphinx("-E", "-D", "nb_execution_mode=off")
            ),
            "book": lambda: seconds(*sphinx("-E")),
            "import": lambda: seconds(*IMPORT),
        },
    )
    edits = medians(
        EDITS,
        {
            "one page": edit,
            "its cells": lambda: seconds(*cells, LARGEST),
        },
    )
    return {**builds, **edits}


def main() -> None:
    """Print the ratio for the book, and the time of an edited page."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("conf.py", "docs", "locks", "src", "pyproject.toml"):
            source, target = ROOT / name, Path(folder, name)
            if source.is_dir():
                ignored = shutil.ignore_patterns("_build", "__pycache__")
                shutil.copytree(source, target, ignore=ignored)
            else:
                shutil.copyfile(source, target)
        with chdir(folder):
            compare()


def compare() -> None:
    """Build the book in the folder that we are in."""
    pages = [
        str(page.relative_to("docs"))
        for page in pages_that_run(Path("docs"))
    ]
    found = measure(pages)
    least = found["no execution"] + found["cells"]
    more = found["one page"] - found["its cells"]
    imports = len(pages) * found["import"] / (os.cpu_count() or 1)
    print(
        f"{'pages':>5} {'seconds':>8} {'of least':>9} {'one page more':>14}"
        f" {'imports a page':>15}"
    )
    print(
        f"{len(pages):>5} {found['book']:>8.1f}"
        f" {found['book'] / least:>9.2f} {more:>+12.1f} s"
        f" {found['book'] / imports:>15.2f}"
    )
