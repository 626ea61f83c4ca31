"""The locks have what is asked for."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
LOCKS = ("lowest", "3.11", "3.13")


def locked_in(name: str) -> dict[str, str]:
    """Read the versions of a lock."""
    lock = (ROOT / "locks" / f"{name}.txt").read_text("utf-8")
    return dict(re.findall(r"^([\w-]+)==(\S+)", lock, re.M))


@pytest.mark.parametrize("name", LOCKS)
def test_what_is_asked_for_is_locked(name: str) -> None:
    """If not: nox -s lock."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    asked = [
        *project["project"]["dependencies"],
        *(
            entry
            for group in ("docs", "tests", "browser", "lint")
            for entry in project["dependency-groups"][group]
            if isinstance(entry, str)
        ),
    ]
    locked = locked_in(name)

    for requirement in map(Requirement, asked):
        version = locked[requirement.name]
        assert requirement.specifier.contains(version), requirement
