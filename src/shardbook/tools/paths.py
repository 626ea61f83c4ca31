"""How the path of an array is written, and what paths have in common."""

import re
from collections.abc import (
    Iterable,
)
from typing import TYPE_CHECKING, Any

import jax

if TYPE_CHECKING:
    pass


VALUE = jax.tree_util.GetAttrKey("value")


def dotted(path: tuple[Any, ...]) -> str:
    """Write a path as names, joined by dots."""
    return jax.tree_util.keystr(path, simple=True, separator=".")


def strip_value(path: tuple[Any, ...]) -> tuple[Any, ...]:
    """Leave out the last key of a path, if it says nothing.

    Variables and Linen boxes keep their array in an attribute ``value``,
    which says nothing about where in the model the array is.
    """
    if path and path[-1] == VALUE:
        return path[:-1]
    return path


# A number that is a name, as in "layers.0", or ends one, as in "layers_0";
# of what is rolled up already, the sign in its place.
_NUMBER = re.compile(r"[\d*](?<![^._].)\d*(?![^.])")


def pattern_of(path: str) -> str:
    """Write a path without the numbers of layers that repeat."""
    return _NUMBER.sub("*", path)


def common_pattern(paths: Iterable[str]) -> str:
    """Write paths of one pattern, with ``*`` where their numbers differ."""
    rest = iter(paths)
    first = next(rest)
    names, pattern = first.split("."), pattern_of(first).split(".")
    # Few paths are enough to see which numbers differ.
    for path in rest:
        if names == pattern:
            break
        for at, name in enumerate(path.split(".")):
            if name != names[at]:
                names[at] = pattern[at]
    return ".".join(names)
