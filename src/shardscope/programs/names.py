"""How the arguments of a call are named."""

import inspect
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import jax

from shardscope.arrays.paths import dotted


def positional_names(
    function: Callable[..., Any], count: int, keywords: Iterable[str] = ()
) -> list[str]:
    """Name the positional arguments of a call as its function does.

    Those that the function gathers in ``*args``, and all of a function
    whose signature is unknown, are ``args[0]``, ``args[1]`` and so on.

    Args:
        function: The function.
        count: How many arguments are given by position.
        keywords: The names of those that are given by name.
    """
    try:
        parameters = [*inspect.signature(function).parameters.values()]
    except (TypeError, ValueError):
        parameters = []
    # nnx.jit_partial shows the signature with what it has bound.
    if getattr(function, "partial_args", None):
        parameters = []
    names: list[str] = []
    gathered = "args"
    for each in parameters:
        if each.kind is each.VAR_POSITIONAL:
            gathered = each.name
        elif each.kind in (
            each.POSITIONAL_ONLY,
            each.POSITIONAL_OR_KEYWORD,
        ):
            names.append(each.name)
    rest = range(count - len(names))
    names = [*names[:count], *(f"{gathered}[{number}]" for number in rest)]
    # A name that is by position only may be that of a keyword as well.
    taken = {*keywords}
    return [
        f"args[{number}]" if name in taken else name
        for number, name in enumerate(names)
    ]


def paths_in_call(
    keys: Iterable[tuple[Any, ...]], names: list[str]
) -> list[str]:
    """Write the path of each array of a call, as ``model.blocks.0.kernel``.

    Args:
        keys: The keys of each in the pair of ``args`` and ``kwargs``.
        names: The names of the positional arguments.
    """
    owners = [
        (names[key.idx] if hasattr(key, "idx") else str(key.key), inside)
        for (_, key, *inside) in keys
    ]
    short = [
        ".".join(filter(None, (owner, dotted(tuple(inside)))))
        for owner, inside in owners
    ]
    # A key may have a dot in it.
    times = Counter(short)
    return [
        path
        if times[path] == 1
        else owner + jax.tree_util.keystr(tuple(inside))
        for path, (owner, inside) in zip(short, owners, strict=True)
    ]
