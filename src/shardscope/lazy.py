"""Import a public name when it is first asked for, and what it needs."""

import importlib
import re
from collections.abc import Callable
from typing import Any


def what_to_install(what: str, error: ModuleNotFoundError) -> ImportError:
    """Say what is missing if the package was installed without its needs.

    Args:
        what: What was imported.
        error: Why it can't be.

    Returns:
        An error with the command that installs what is missing, or the
        same error if something else is.
    """
    metadata = importlib.import_module("importlib.metadata")
    needed = [
        re.split(r"[^\w-]", each)[0]
        for each in metadata.requires("shardbook") or ()
    ]
    if error.name not in needed:
        return error
    found = {each.name for each in metadata.distributions()}
    missing = [each for each in needed if each not in found]
    return ImportError(
        f"{what} needs {error.name}, which is not installed; layout, draw, "
        "program and the pytest plugin need jax and numpy alone. To "
        "install what is missing: "
        f"python3 -m pip install {' '.join(missing) or error.name}",
        name=error.name,
    )


def importer(package: str, homes: dict[str, str]) -> Callable[[str], Any]:
    """Make the ``__getattr__`` of a package.

    The command line answers before it would have imported jax.

    Args:
        package: Its name.
        homes: The module in it that has each public name.
    """

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(
                f"module {package!r} has no attribute {name!r}"
            )
        try:
            module = importlib.import_module(f"{package}.{homes[name]}")
        except ModuleNotFoundError as error:
            raise what_to_install(f"{package}.{name}", error) from None
        return getattr(module, name)

    return find
