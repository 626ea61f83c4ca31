"""How long the book takes to build, against what can't be saved.

No build can take less than the CPU time of all cells, shared by the cores.
This is what they take in one process, a page after the other, where no page
finds what another has compiled. What a build adds to it, and what it adds
to the cells of a page that was edited, are differences from one run.
"""

import os
import resource
import shutil
import sys
import tempfile
from contextlib import chdir
from pathlib import Path

from timing import seconds

from shardbook_site.cells import pages_that_run

ROOT = Path(__file__).parents[1]
CORES = os.cpu_count() or 1
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


def build() -> float:
    """Build the book as "nox -s docs" does."""
    return seconds(
        *(sys.executable, "-m", "sphinx", "-E", "-b", "html", "-c", "."),
        *("-j", str(CORES + 1), "-D", "execution_kept=_build/kept"),
        *("-d", "_build/doctrees", "docs", "_build/html"),
    )


def run_cells(*pages: str) -> float:
    """Run the cells of pages, and give the CPU time of that."""

    def used() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    before = used()
    seconds(sys.executable, "-W", "ignore", "-c", CELLS, *pages)
    return used() - before


def main() -> None:
    """Print how long builds take, in a copy of what they need."""
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
    """Build the book in the folder that we are in, and again, edited."""
    pages = [
        str(page.relative_to("docs"))
        for page in pages_that_run(Path("docs"))
    ]
    cells = run_cells(*pages)
    first, second = build(), build()
    one = Path("docs", LARGEST)
    # A comment is code too: the page has to run again.
    code = one.read_text("utf-8").replace(
        "\n```\n", "\n# Edited.\n```\n", 1
    )
    one.write_text(code, "utf-8")
    edited, its_cells = build(), run_cells(LARGEST)
    print(f"{len(pages)} pages")
    for words, count in (
        ("cells, CPU", cells),
        (f"that on {CORES} cores", cells / CORES),
        ("first build", first),
        ("more than its cells on all cores", first - cells / CORES),
        ("second build, nothing changed", second),
        (f"a build after an edit of {one.stem}", edited),
        ("its cells, CPU", its_cells),
    ):
        print(f"{words:40} {count:7.1f} s")


if __name__ == "__main__":
    main()
