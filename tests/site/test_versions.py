"""What the page of versions says was run on what is locked."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RUNS = json.loads((ROOT / "docs/versions.json").read_text("utf-8"))["runs"]
LOCKS = {
    "lowest 3.11": "lowest",
    "locked 3.11": "3.11",
    "locked 3.13": "3.13",
}


@pytest.mark.parametrize("name", RUNS.keys() & LOCKS.keys())
def test_a_run_was_on_what_is_locked(name: str) -> None:
    """If not: nox -s matrix."""
    lock = (ROOT / "locks" / f"{LOCKS[name]}.txt").read_text("utf-8")
    locked = dict(re.findall(r"^([\w-]+)==(\S+)", lock, re.M))

    for package in ("jax", "flax", "numpy", "sphinx"):
        assert RUNS[name][package] == locked[package], package
