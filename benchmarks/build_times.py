"""How long the book takes to build, against what can't be saved.

Each figure is a ratio of medians from one run, in which the builds take
turns: of this book, and of one of thirty pages that is made of it. What a
build can't save is Sphinx without execution, and the cells themselves in
one process. No page finds there what another has compiled: the book of
thirty pages stands for one in which each page has a problem of its own.
"""

import re
import shutil
import sys
import tempfile
from contextlib import chdir
from pathlib import Path

from timing import medians, seconds

from shardbook_site.cells import pages_that_run

ROOT = Path(__file__).parents[1]
PAGES = 30
# How often a page is edited.
EDITS = 5
# The page that is edited.
LARGEST = "problems/tree_mode_shard_map.md"
# Makes the cells of pages run in one process, a namespace for each page.
CELLS = """
import os, sys, warnings, jax
from shardbook_site.cells import CELL
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


def measure(rounds: int, pages: list[str]) -> dict[str, float]:
    """Build the book in the folder that we are in, and again, edited."""
    one = Path("docs", LARGEST)

    def edit() -> float:
        one.write_text(one.read_text("utf-8") + "\nOne more line.\n")
        # As "nox -s docs -- --serve" builds it.
        return seconds(*sphinx())

    cells = (sys.executable, "-W", "ignore", "-c", CELLS)
    builds = medians(
        rounds,
        {
            "cells": lambda: seconds(*cells, *pages),
            "no execution": lambda: seconds(
                *sphinx("-E", "-D", "nb_execution_mode=off")
            ),
            "book": lambda: seconds(*sphinx("-E")),
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


def thirty(pages: list[str]) -> list[str]:
    """Make a book of thirty pages, out of those of problems."""
    problems = [page for page in pages if page.startswith("problems/")]
    made = []
    for number in range(PAGES - len(pages)):
        source = Path("docs", problems[number % len(problems)])
        copy = f"copies/{source.stem}-{number}.md"
        target = Path("docs", copy)
        target.parent.mkdir(exist_ok=True)
        # It can't be the same problem twice: no starter, no solution.
        text = re.sub(
            r"^```\{(attempt|solution)\} .*\n```\n",
            "",
            source.read_text("utf-8"),
            flags=re.M,
        )
        target.write_text(f"---\norphan: true\n{text[4:]}", "utf-8")
        made.append(copy)
    return [*pages, *made]


def main() -> None:
    """Print the ratios for the book, and for thirty pages."""
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
    """Build the book in the folder that we are in, and one of thirty."""
    pages = [
        str(page.relative_to("docs"))
        for page in pages_that_run(Path("docs"))
    ]
    print(
        f"{'pages':>5} {'seconds':>8} {'of least':>9}"
        f" {'one page more':>14} {'per page':>9}"
    )
    before = None
    # Thirty pages take their time: one round.
    for make, rounds in ((list, 3), (thirty, 1)):
        book = make(pages)
        found = measure(rounds, book)
        least = found["no execution"] + found["cells"]
        more = found["one page"] - found["its cells"]
        per_page = ""
        if before:
            built = found["book"] - before["book"]
            cells = found["cells"] - before["cells"]
            each = (built - cells) / (len(book) - len(pages))
            per_page = f"{each:+.2f} s"
        print(
            f"{len(book):>5} {found['book']:>8.1f}"
            f" {found['book'] / least:>9.2f}"
            f" {more:>+12.1f} s {per_page:>9}",
            flush=True,
        )
        before = found
