"""Stop before anything fails for a version that is too old."""

from importlib import import_module
from importlib.metadata import version
from pathlib import Path

from packaging.requirements import Requirement
from sphinx.errors import ConfigError


def check_versions(pyproject: Path) -> None:
    """Say what is missing or too old, and how to get what is not.

    Args:
        pyproject: Where it is written what the site needs.

    Raises:
        ConfigError: If Python or a package is too old, or is not there.
    """
    remedy = '"nox -s docs" makes an environment of what is needed.'
    try:
        # It asks for a Python that is new enough for what follows.
        import_module("shardbook")
        import tomllib

        facts = tomllib.loads(pyproject.read_text("utf-8"))
        needed = [
            Requirement(line)
            for line in (
                *facts["project"]["dependencies"],
                *facts["dependency-groups"]["docs"],
            )
        ]
        found = {each: version(each.name) for each in needed}
    except ImportError as error:
        raise ConfigError(f"{error}\n{remedy}") from None
    old = [
        f"{each} is needed; this is {each.name} {number}"
        for each, number in found.items()
        if not each.specifier.contains(number, prereleases=True)
    ]
    if old:
        raise ConfigError("\n".join([*old, remedy]))
