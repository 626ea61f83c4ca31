"""The locks have what is asked for, and no more."""

import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
LOCKS = ("lowest", "3.11", "3.13")


def locked_in(name: str) -> dict[str, str]:
    """Read the versions of a lock."""
    lock = (ROOT / "locks" / f"{name}.txt").read_text("utf-8")
    return dict(re.findall(r"^([\w-]+)==(\S+)", lock, re.M))


def asked() -> Iterator[Requirement]:
    """Read what the package and the locked groups ask for."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    groups = project["dependency-groups"]
    for group in ("docs", "tests", "browser", "lint"):
        entries = [each for each in groups[group] if isinstance(each, str)]
        yield from map(Requirement, entries)
    yield from map(Requirement, project["project"]["dependencies"])


@pytest.mark.parametrize("name", LOCKS)
def test_what_is_asked_for_is_locked(name: str) -> None:
    """If not: nox -s lock."""
    locked = locked_in(name)

    for requirement in asked():
        version = locked[requirement.name]
        assert requirement.specifier.contains(version), requirement


@pytest.mark.parametrize("name", [*LOCKS, "elsewhere"])
def test_what_is_locked_is_needed(name: str) -> None:
    """If not: nox -s lock. What is not installed here is not judged."""
    installed = {
        canonicalize_name(each.name): each for each in distributions()
    }
    needed = {canonicalize_name(each.name) for each in asked()}
    for each in installed.values():
        needs = map(Requirement, each.requires or ())
        needed |= {canonicalize_name(need.name) for need in needs}

    locked = locked_in(name).keys() & installed.keys()

    assert locked - needed == set()
