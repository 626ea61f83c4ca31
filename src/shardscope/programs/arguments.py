"""Find the arrays that a program takes, and which of them are moved."""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, groupby, repeat
from typing import Any

import jax
import numpy as np

from shardscope.arrays.leaf import LeafLayout, leaf_of
from shardscope.arrays.leaves import is_array
from shardscope.arrays.modules import (
    expand_modules,
    is_graph_node,
    join_modules,
)
from shardscope.arrays.paths import dotted, strip_value
from shardscope.arrays.shards import Slice, slices_of
from shardscope.programs.names import paths_in_call


@dataclass(frozen=True, slots=True)
class Argument:
    """An array that a program takes.

    Attributes:
        wanted: How the program wants it, at its path in the call, such as
            ``"model.blocks.0.up.kernel"``.
        given: How it was passed in: a spec, or ``"a NumPy array"``.
        transfer: Bytes that all devices together receive before the program
            starts.
        donated: Whether its memory is offered to the results.
        offloaded: Whether XLA counts it as being on the host.
        number: Its place among the arguments that the program uses.
        returned: The result of the same path in a tree of the same shapes,
            as a step returns the state that it takes. None if there is
            none, or if the argument is no tree but one array.
        asked: Whether the call says how this result is sharded, by
            ``out_shardings`` or by Explicit axes, and not the compiler.
    """

    wanted: LeafLayout
    given: str
    transfer: int
    donated: bool
    offloaded: bool
    number: int
    returned: LeafLayout | None = None
    asked: bool = False


@dataclass(frozen=True, slots=True)
class _Wanted:
    """An argument as a program takes it.

    Attributes:
        shape: Its shape.
        dtype: Its dtype.
        sharding: Its sharding, or None if the program does not use it.
        donated: Whether its memory is offered to the results.
        number: Its place among the arguments that the program uses.
    """

    shape: tuple[int, ...]
    dtype: Any
    sharding: Any
    donated: bool
    number: int


def _leaves(tree: Any) -> list[tuple[Any, Any]]:
    """Give the leaves of a tree in their order, each with its path."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return [(strip_value(path), leaf) for path, leaf in leaves]


def _names(path: tuple[Any, ...]) -> str:
    """Write a path within an argument, in a Module as in its state."""
    return dotted(path[2:]).removesuffix("value").removesuffix(".")


def arguments_of(
    given: Any, names: list[str], lowered: Any, compiled: Any
) -> tuple[tuple[Argument, ...] | None, tuple[tuple[str, int], ...]]:
    """Find the arrays that a program uses, in the order of the call.

    Args:
        given: The positional arguments of the call, and those by name.
        names: The names of the positional arguments.
        lowered: The program.
        compiled: The same, compiled.

    Returns:
        The arrays, or None if the program has them under other paths; and
        each Module that it uses nothing of, with its bytes.
    """
    used = count()
    results = _results_of(lowered, compiled)
    wanted = jax.tree.map(
        # The sharding is None if the program does not use the argument.
        lambda info, sharding: _Wanted(
            info.shape,
            info.dtype,
            sharding,
            info.donated,
            -1 if sharding is None else next(used),
        ),
        lowered.args_info,
        compiled.input_shardings,
    )
    matched = match_arguments(given, names, wanted)
    if matched is None:
        return None, ()
    found: list[Argument] = []
    ignored: defaultdict[str, list[LeafLayout]] = defaultdict(list)
    for path, leaf, place in matched:
        if place.sharding is None:
            about = leaf_of(path, leaf, getattr(leaf, "sharding", None))
            ignored[owner_of(path)].append(about)
            continue
        about = leaf_of(path, place, place.sharding)
        back = results.get(place.number)
        found.append(
            Argument(
                wanted=about,
                given=_how_given(path, leaf),
                transfer=about.bytes_per_device
                * _devices_that_lack(leaf, place),
                donated=place.donated,
                offloaded=_is_offloaded(place.sharding),
                number=place.number,
                returned=back and leaf_of(path, back[0][1], back[1]),
                asked=bool(back and back[2]),
            )
        )
    for each in found:
        ignored.pop(owner_of(each.wanted.path), None)
    args, kwargs = given
    modules = [
        name
        for name, each in (*zip(names, args, strict=False), *kwargs.items())
        if is_graph_node(each)
    ]
    return tuple(found), tuple(
        (path, sum(each.bytes_per_device for each in ignored[path]))
        for path in modules
        if path in ignored
    )


def owner_of(path: str) -> str:
    """Give the name of the argument that a path begins with."""
    return re.split(r"[.\[]", path)[0]


def match_arguments(
    given: Any, names: list[str], wanted: Any
) -> list[tuple[str, Any, Any]] | None:
    """Find the arrays of a call among those that its program takes.

    Args:
        given: The positional arguments of the call, and those by name.
        names: The names of the positional arguments.
        wanted: The program's, of any kind that has a shape, in its trees.

    Returns:
        The path, the array and what is wanted of each; or None if the
        program has them under other paths.
    """
    # nnx.jit splits each Module; put together again, it has its paths.
    # Static arguments are given and not wanted, those that
    # nnx.jit_partial has bound are wanted and not given, and come first.
    # So an array is the last that fits of those that are left.
    left = _leaves(join_modules(wanted))
    found: list[tuple[str, Any, Any]] = []
    arrays = [
        (keys, leaf)
        for keys, leaf in _leaves(expand_modules(given))
        if is_array(leaf)
    ]
    paths = paths_in_call([keys for keys, _ in arrays], names)
    for path, (keys, leaf) in reversed([*zip(paths, arrays, strict=True)]):
        inside = _names(keys)
        for index in range(len(left) - 1, -1, -1):
            its_keys, place = left[index]
            if _names(its_keys) == inside and place.shape == leaf.shape:
                del left[index:]
                break
        else:
            # Under other names, as a split state under nnx.jit is.
            return None
        found.append((path, leaf, place))
    return found[::-1]


def _results_of(lowered: Any, compiled: Any) -> dict[int, Any]:
    """Give the result of each used argument that is in a tree like it.

    By the argument's number come the keys, shape and dtype of the result,
    its sharding, and whether the call asks for this.
    """
    flat = jax.tree_util.tree_leaves_with_path
    asked = [
        "sdy.sharding" in result
        for each in lowered.compiler_ir().body.operations
        if str(each.attributes["sym_name"]) == '"main"'
        for result in each.attributes["res_attrs"]
    ]
    shardings = jax.tree.leaves(compiled.output_shardings)
    given = [*zip(flat(lowered.out_info), shardings, asked, strict=False)]
    trees: defaultdict[Any, list[Any]] = defaultdict(list)
    for depth in range(3):
        for tree, results in _trees_at(given, depth):
            # What is one array has no path, by which it might be known.
            if tree[0][0]:
                trees[tree].append(results)
    treedef: Any = jax.tree.structure(lowered.args_info)
    used = treedef.flatten_up_to(compiled.input_shardings)
    taken = [*zip(flat(lowered.args_info), used, strict=True)]
    numbers = count()
    found: dict[int, Any] = {}
    # Each argument is in a pair of args and kwargs.
    for tree, arguments in _trees_at(taken, 2):
        results = trees[tree].pop(0) if trees[tree] else repeat(None)
        for (_, sharding), result in zip(arguments, results, strict=False):
            if sharding is not None:
                found[next(numbers)] = result
    return found


def _trees_at(leaves: list[Any], depth: int) -> Iterator[tuple[Any, Any]]:
    """Give the paths and shapes of each tree at a depth, and its leaves."""
    for _, group in groupby(leaves, lambda leaf: leaf[0][0][:depth]):
        tree = [*group]
        yield tuple((x[0][depth:], x[1].shape) for x, *_ in tree), tree


def paths_of(
    arguments: tuple[Argument, ...] | None, compiled: Any
) -> tuple[str, ...]:
    """Give the path of each array that a program uses, in its order.

    Empty for one that is not in the call, such as a number.
    """
    if arguments is None:
        return ()
    paths = {each.number: each.wanted.path for each in arguments}
    used = len(jax.tree.leaves(compiled.input_shardings))
    return tuple(paths.get(number, "") for number in range(used))


def _how_given(path: str, leaf: Any) -> str:
    """Say how an array was passed in."""
    if isinstance(leaf, np.ndarray):
        return "a NumPy array"
    return leaf_of(path, leaf, leaf.sharding).where


def _is_offloaded(sharding: Any) -> bool:
    """Tell whether XLA counts an argument as being on the host."""
    (platform,) = {device.platform for device in sharding.device_set}
    return platform != "cpu" and "host" in (sharding.memory_kind or "")


def _devices_that_lack(leaf: Any, place: _Wanted) -> int:
    """Count the devices that don't hold their slice of an argument yet."""
    if isinstance(leaf, jax.ShapeDtypeStruct) and leaf.sharding is None:
        return 0
    held: dict[jax.Device, Slice] = {}
    if not isinstance(leaf, np.ndarray):
        held = slices_of(leaf.sharding, place.shape)
    needed = slices_of(place.sharding, place.shape)
    return sum(held.get(device) != part for device, part in needed.items())
