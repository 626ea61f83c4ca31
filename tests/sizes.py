"""Which tests "nox -s tests" leaves to "nox -s exhaustive"."""

import subprocess
from collections.abc import Collection, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from shardbook.problems import NAMES

ROOT = Path(__file__).parents[1]


def all_but(
    main: Collection[Any], rows: Iterable[Any], why: str
) -> list[Any]:
    """Mark the parameters of a test as exhaustive, but for the main ones.

    Args:
        main: The main ones, or the first part of each.
        rows: All.
        why: Why the others can wait.
    """
    marked = []
    for row in rows:
        parts = row if isinstance(row, tuple) else (row,)
        marks = [] if parts[0] in main else [pytest.mark.exhaustive(why)]
        marked.append(pytest.param(*parts, marks=marks))
    return marked


def include(item: pytest.Item) -> None:
    """Take a test into "nox -s tests", although it is exhaustive."""
    item.own_markers = [
        each for each in item.own_markers if each.name != "exhaustive"
    ]


def selected(request: pytest.FixtureRequest, parameter: str) -> list[Any]:
    """Give the values of a parameter in the selected tests of a file.

    Args:
        request: The request of a fixture of the file.
        parameter: The name of the parameter.
    """
    return [
        item.callspec.params[parameter]
        for item in request.session.items
        if isinstance(item, pytest.Function)
        and item.path == request.path
        and hasattr(item, "callspec")
        and parameter in item.callspec.params
    ]


@cache
def changed_problems(root: Path = ROOT) -> list[str]:
    """Name the problems of which a file has changed.

    Since where this branch left the default branch of the remote, or
    without a remote since the commit before, with what is not committed.

    Args:
        root: The folder of the repository.
    """

    def git(*arguments: str) -> list[str]:
        done = subprocess.run(
            ("git", *arguments), cwd=root, capture_output=True, text=True
        )
        return done.stdout.splitlines() if done.returncode == 0 else []

    try:
        remote = [f"{name}/HEAD" for name in git("remote")[:1]]
        base = git("merge-base", "HEAD", *remote) if remote else []
        base = base or git("rev-parse", "--verify", "--quiet", "HEAD~1")
        files = [
            *(git("diff", "--name-only", *base) if base else ()),
            *git("ls-files", "--others", "--exclude-standard"),
        ]
    # Without git, nobody knows what has changed.
    except FileNotFoundError:
        return []
    names = {
        part.partition(".")[0].removeprefix("test_")
        for file in files
        for part in Path(file).parts
    }
    return [name for name in NAMES if name in names]
