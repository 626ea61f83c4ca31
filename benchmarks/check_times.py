"""How long grading takes, against a Python that only makes the calls.

Each figure is a ratio of medians from one run, in which the commands take
turns. ``check`` and ``save`` are compared with the calls of the attempt
alone, and find in the cache what an earlier check has compiled. ``first``
is the first check on a machine: nothing is cached, and it is compared with
the calls of the attempt and of the solution, after one import.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import chdir
from functools import partial
from pathlib import Path

from timing import medians, seconds

from shardbook.problems import NAMES
from shardbook.reader import attempt_files

ROUNDS = 3
# How long a reader thinks and types, at the least, before the next save.
THOUGHT = 3
# What a reader would run without us: import, and make the same calls.
BARE = """
import importlib, json, sys
import jax
from flax import linen, nnx

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
sys.path.insert(0, "attempts")
name = sys.argv[1]
inputs = vars(importlib.import_module("shardbook.inputs"))
for module, call in json.loads(sys.argv[2]):
    function = getattr(importlib.import_module(module), name)
    jax.block_until_ready(eval(call, {**inputs, name: function}))
"""
# Lists the calls that a check makes, each with the module it is made of.
CALLS = """
import json, sys
from pathlib import Path

from shardbook.grading.attempt import Attempt
from shardbook.grading.job import Job

calls = []
make, note = Attempt.__call__, Attempt.name_call


def noted(self, call, given=""):
    ours = f"shardbook.problems.{name}"
    calls.append((name if self.filename == path else ours, call))
    note(self, call, given)


def made(self, *arguments):
    try:
        return make(self, *arguments)
    except Exception:
        # It must raise, and a Python that made it would end.
        calls.pop()
        raise


Attempt.__call__, Attempt.name_call = made, noted
name = sys.argv[1]
path = f"attempts/{name}.py"
found = Job(name, name, Path(path))()
verdict = found.passed if isinstance(found, Job) else found
assert verdict.right, verdict
print(json.dumps(calls))
"""


class Watch:
    """A ``shardbook watch`` to save files for."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.process = subprocess.Popen(
            (sys.executable, "-u", "-m", "shardbook", "watch", path.stem),
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
    """Print the ratios for each problem, and for all of them."""
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        measure()


def measure() -> None:
    """Grade in the folder that we are in."""
    shardbook = (sys.executable, "-m", "shardbook")
    columns = ("check/bare", "save/bare", "first/bare")
    print(f"{'problem':26}", *(f"{column:>11}" for column in columns))
    for name in NAMES:
        path = attempt_files.start(name)
        path.write_text(attempt_files.solution(name))
        listed = subprocess.run(
            (sys.executable, "-c", CALLS, name),
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        calls = json.loads(listed)
        watch = Watch(path)
        found = medians(
            ROUNDS,
            {
                "bare": partial(
                    bare, name, [c for c in calls if c[0] == name]
                ),
                "check": partial(seconds, *shardbook, "check", name),
                "save": watch.save,
                "bare with both": partial(bare, name, calls),
                "first": partial(first_check, name),
            },
            warm_up=True,
        )
        watch.process.terminate()
        ratios = (
            found["check"] / found["bare"],
            found["save"] / found["bare"],
            found["first"] / found["bare with both"],
        )
        print(f"{name:26}", *(f"{ratio:>11.2f}" for ratio in ratios))
    found = medians(
        ROUNDS,
        {
            "one": partial(seconds, *shardbook, "check", NAMES[-1]),
            "all": partial(seconds, *shardbook, "check"),
        },
        warm_up=True,
    )
    print(f"all problems / {NAMES[-1]}: {found['all'] / found['one']:.2f}")


def bare(name: str, calls: list[list[str]]) -> float:
    """Time a Python that makes these calls."""
    return seconds(sys.executable, "-c", BARE, name, json.dumps(calls))


def first_check(name: str) -> float:
    """Time a check where nothing is cached."""
    command = (sys.executable, "-m", "shardbook", "check", name)
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "XDG_CACHE_HOME": cache}
        return seconds(*command, environment=environment)
