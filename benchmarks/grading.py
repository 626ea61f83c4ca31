"""How long grading takes, against a Python that only makes the calls.

Each figure is a ratio of medians from one run, in which the commands take
turns.
"""

import json
import subprocess
import sys
import tempfile
import time
from contextlib import chdir
from pathlib import Path

from turns import medians, seconds

from shardbook import attempts
from shardbook.problems import NAMES

ROUNDS = 5
# How long a reader thinks and types, at the least, before the next save.
THOUGHT = 3
# What a reader would run without us: import, and make the same calls.
BARE = """
import json, sys
import jax
import jax.numpy as jnp
import numpy as np
from flax import linen, nnx

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
sys.path.insert(0, "attempts")
name = sys.argv[1]
function = getattr(__import__(name), name)
for seed, shape, features in json.loads(sys.argv[2]):
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    function(seed, jnp.asarray(x), features).block_until_ready()
"""
# Makes a list of the calls that the checks make of the solution.
CALLS = """
import json, sys
from shardbook import grading

calls = []
make = grading.Attempt.__call__


def note(self, seed, x, features, given=""):
    # Those of the solution, for the comparison, are none of the reader's.
    if self.filename == path:
        calls.append((seed, x.shape, features))
    return make(self, seed, x, features, given)


grading.Attempt.__call__ = note
name = sys.argv[1]
path = f"attempts/{name}.py"
verdict = grading.grade(name, "file", path, name)
assert verdict["status"] == "right", verdict
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
        text = attempts.solution(self.path.stem)
        time.sleep(THOUGHT)
        start = time.perf_counter()
        self.path.write_text(text)
        self._until("ms for a call")
        return time.perf_counter() - start


def main() -> None:
    """Print the ratios for each problem, and for all of them."""
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        measure()


def measure() -> None:
    """Grade in the folder that we are in."""
    shardbook = (sys.executable, "-m", "shardbook")
    print(f"{'problem':26} {'check/bare':>11} {'save/bare':>11}")
    for name in NAMES:
        path = attempts.start(name)
        path.write_text(attempts.solution(name))
        calls = subprocess.run(
            (sys.executable, "-c", CALLS, name),
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        bare = (
            sys.executable,
            "-c",
            BARE,
            name,
            json.dumps(json.loads(calls)),
        )
        watch = Watch(path)
        found = medians(
            ROUNDS,
            {
                "bare": lambda bare=bare: seconds(*bare),
                "check": lambda name=name: seconds(
                    *shardbook, "check", name
                ),
                "save": watch.save,
            },
            warm_up=True,
        )
        watch.process.terminate()
        check, save = (
            found[key] / found["bare"] for key in ("check", "save")
        )
        print(f"{name:26} {check:>11.2f} {save:>11.2f}")
    found = medians(
        ROUNDS,
        {
            "one": lambda: seconds(*shardbook, "check", NAMES[-1]),
            "all": lambda: seconds(*shardbook, "check"),
        },
        warm_up=True,
    )
    print(f"all problems / {NAMES[-1]}: {found['all'] / found['one']:.2f}")
