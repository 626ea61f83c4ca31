"""What was noted of steps compiled for chips.

``docs/_chips/NAME.py`` has a step of the problem NAME for any mesh, and
asserts what the page says of it. ``note_chips`` compiles it and writes
``docs/_chips/NAME.json``, which the directive ``on-chips`` shows. A build
doesn't need the compilers: where the code has changed since, the page says
so, and a release waits until it is noted again.
"""

import hashlib
import json
from itertools import chain
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "_chips"
NAMES = tuple(sorted(path.stem for path in FOLDER.glob("*.py")))


def read(name: str) -> dict[str, Any]:
    """Return what was noted, and whether the code has changed since."""
    text = code(name).with_suffix(".json").read_text("utf-8")
    found: dict[str, Any] = json.loads(text)
    machines = found["machines"].values()
    return {
        **found,
        "kinds": sorted({*chain(*(m["collectives"] for m in machines))}),
        "is_stale": found["code"] != digest(name),
    }


def digest(name: str) -> str:
    """Tell a solution and what compiles it from any others."""
    solution = ROOT / "src" / "shardbook" / "problems" / f"{name}.py"
    text = solution.read_bytes() + code(name).read_bytes()
    return hashlib.sha256(text).hexdigest()[:16]


def size(count: int) -> str:
    """Write a number of bytes."""
    for unit, name in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if count >= unit:
            digits = int(count < 100 * unit)
            return f"{count / unit:.{digits}f} {name}"
    return f"{count} bytes"


def code(name: str) -> Path:
    """Return the file with the step of a problem."""
    return FOLDER / f"{name}.py"


def stale() -> list[str]:
    """Name the problems that have to be noted again."""
    return [name for name in NAMES if read(name)["is_stale"]]
