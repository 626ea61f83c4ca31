"""How long grading takes, in imports of jax and flax.

Each figure is a ratio from one run, in which the commands take turns; more
rounds would take hours. ``first`` is the first check on a machine, where
nothing is cached, ``second`` another one of the same file, and ``save``
what ``watch`` takes from a save to the verdict. The attempt is the
solution.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import chdir
from functools import partial
from pathlib import Path

from timing import medians, seconds

from shardbook.problems import NAMES
from shardgrade.reader import attempt_files

ROUNDS = 1
# How long a reader thinks and types, at the least, before the next save.
THOUGHT = 3
IMPORT = (sys.executable, "-c", "import jax; from flax import nnx")
COLUMNS = ("first", "second", "save")
SHARDBOOK = (sys.executable, "-m", "shardgrade")


class Watch:
    """A ``shardbook watch`` to save files for."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.process = subprocess.Popen(
            (sys.executable, "-u", "-m", "shardgrade", "watch", path.stem),
            stdout=subprocess.PIPE,
            text=True,
        )
        self._until("Waiting for a save")

    def _until(self, words: str) -> None:
        while words not in self.process.stdout.readline():
            pass

    def save(self) -> float:
        """Save the file, and time how long the verdict takes."""
        text = attempt_files.solution(self.path.stem)
        time.sleep(THOUGHT)
        start = time.perf_counter()
        self.path.write_text(text)
        self._until("Waiting for a save")
        return time.perf_counter() - start


def main() -> None:
    """Print the ratios for each problem, and for what grades nothing."""
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        measure()


def measure() -> None:
    """Grade in the folder that we are in."""
    print(f"{'in imports':26}", *(f"{name:>7}" for name in COLUMNS))
    columns = [*zip(*map(of_problem, NAMES), strict=True)]
    show("median", [*map(statistics.median, columns)])
    show("most", [*map(max, columns)])
    found = medians(
        ROUNDS,
        {
            "import": partial(seconds, *IMPORT),
            "list": partial(seconds, *SHARDBOOK, "list"),
            "--help": partial(seconds, *SHARDBOOK, "--help"),
        },
        warm_up=True,
    )
    for command in ("list", "--help"):
        show(f"shardbook {command}", [found[command] / found["import"]])


def show(name: str, ratios: list[float]) -> None:
    """Print a row."""
    print(f"{name:26}", *(f"{ratio:>7.2f}" for ratio in ratios))


def of_problem(problem: str) -> list[float]:
    """Measure the grading of one problem, and print its row."""
    path = attempt_files.start(problem)
    path.write_text(attempt_files.solution(problem))
    watch = Watch(path)
    found = medians(
        ROUNDS,
        {
            "import": partial(seconds, *IMPORT),
            "first": partial(first_check, problem),
            "second": partial(seconds, *SHARDBOOK, "check", problem),
            "save": watch.save,
        },
    )
    watch.process.terminate()
    ratios = [found[name] / found["import"] for name in COLUMNS]
    show(problem, ratios)
    return ratios


def first_check(name: str) -> float:
    """Time a check where nothing is cached."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "XDG_CACHE_HOME": cache}
        return seconds(*SHARDBOOK, "check", name, environment=environment)
