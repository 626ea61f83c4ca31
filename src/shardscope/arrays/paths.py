"""How the path of an array is written, and what paths have in common."""

import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeVar

import jax

T = TypeVar("T")
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
# of what is rolled up already, the sign in its place. That in brackets, as
# in "args[0].kernel", is of an argument.
_NUMBER = re.compile(r"[\d*](?<![^._].)\d*(?![^.'\]])")


def pattern_of(path: str) -> str:
    """Write a path without the numbers of layers that repeat."""
    return _NUMBER.sub("*", path)


def common_pattern(paths: Iterable[str]) -> str:
    """Write paths of one pattern, with ``*`` where their numbers differ."""
    first, *rest = paths
    numbers = zip(*map(_NUMBER.findall, [first, *rest]), strict=True)
    signs = ["*" if len({*each}) > 1 else each[0] for each in numbers]
    return _NUMBER.sub(lambda _: signs.pop(0), first)


def roll_up(
    things: Iterable[T],
    path: Callable[[T], str],
    about: Callable[[T], Hashable],
) -> list[tuple[str, list[T]]]:
    """Group things that are alike and whose paths differ only in numbers.

    Each group comes with the path that its things have in common.
    """
    groups: defaultdict[Any, list[T]] = defaultdict(list)
    for each in things:
        groups[pattern_of(path(each)), about(each)].append(each)
    return [
        (common_pattern(map(path, same)), same) for same in groups.values()
    ]


def write_repeated(path: str, times: int) -> str:
    """Write a path with the number of arrays that it stands for."""
    return f"{path} ×{times}" if times > 1 else path
