"""Count the bytes of a program's arguments, and of those that are moved."""

import math
from dataclasses import dataclass
from itertools import count
from typing import Any

import jax
import numpy as np

from shardbook.tools.leaves import expand_modules, flax_nnx
from shardbook.tools.paths import strip_value
from shardbook.tools.shards import Slice, slices_of


def is_array(leaf: Any) -> bool:
    """Tell whether a leaf is an array, or stands for one."""
    return isinstance(leaf, jax.Array | np.ndarray | jax.ShapeDtypeStruct)


def _leaves(tree: Any) -> list[tuple[Any, Any]]:
    """Give the leaves of a tree in their order, each with its path."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return [(strip_value(path), leaf) for path, leaf in leaves]


def _names(path: tuple[Any, ...]) -> str:
    """Write a path within an argument, in a Module as in its state."""
    names = jax.tree_util.keystr(path[2:], simple=True, separator=".")
    return names.removesuffix("value").removesuffix(".")


def _merge(context: Any, _path: Any, _prefix: Any, node: Any) -> Any:
    return context.unflatten(node.graphdef, *node.states)


@dataclass(frozen=True)
class Arguments:
    """The arguments of a program, by their paths in the call.

    Attributes:
        sizes: The bytes of each on a device.
        hosted: The bytes of each that is on the host, for one device.
        moves: The bytes that all devices together receive of each that has
            to be copied before the program starts.
        paths: Of each argument that the program uses, in its order. Empty
            for a number.
    """

    sizes: dict[str, int]
    hosted: dict[str, int]
    moves: dict[str, int]
    paths: tuple[str, ...]


@dataclass(frozen=True)
class _Wanted:
    """An argument as a program takes it.

    Attributes:
        shape: Its shape.
        dtype: Its dtype.
        sharding: Its sharding, or None if the program does not use it.
        number: Its place among the arguments that the program uses.
    """

    shape: tuple[int, ...]
    dtype: Any
    sharding: Any
    number: int


def count_arguments(
    given: Any, lowered: Any, compiled: Any
) -> Arguments | None:
    """Count the bytes of arguments on a device, on the host, and moved.

    None if the program has its arguments under other paths.
    """
    used = count()
    wanted = jax.tree.map(
        # The sharding is None if the program does not use the argument.
        lambda info, sharding: _Wanted(
            info.shape,
            info.dtype,
            sharding,
            -1 if sharding is None else next(used),
        ),
        lowered.args_info,
        compiled.input_shardings,
    )
    # nnx.jit splits each Module; put together again, it has its paths.
    if nnx := flax_nnx():
        wanted = nnx.from_tree(wanted, merge_fn=_merge)
    # Static arguments are given and not wanted, those that
    # nnx.jit_partial has bound are wanted and not given, and come first.
    # So an array is the last that fits of those that are left.
    left = _leaves(wanted)
    sizes: dict[str, int] = {}
    hosted: dict[str, int] = {}
    moves: dict[str, int] = {}
    paths = dict.fromkeys(range(next(used)), "")
    for path, leaf in reversed(_leaves(expand_modules(given))):
        if not is_array(leaf):
            continue
        names = _names(path)
        for index in range(len(left) - 1, -1, -1):
            its_path, place = left[index]
            if _names(its_path) == names and place.shape == leaf.shape:
                del left[index:]
                break
        else:
            # Under other names, as a split state under nnx.jit is.
            return None
        if place.sharding is None:
            continue
        name = jax.tree_util.keystr(path[1:])
        paths[place.number] = name
        shard_shape = place.sharding.shard_shape(place.shape)
        size = math.prod(shard_shape) * place.dtype.itemsize
        (hosted if _is_offloaded(place.sharding) else sizes)[name] = size
        if moved := size * _devices_that_lack(leaf, place):
            moves[name] = moved
    return Arguments(
        sizes=dict(reversed(sizes.items())),
        hosted=dict(reversed(hosted.items())),
        moves=dict(reversed(moves.items())),
        paths=tuple(paths.values()),
    )


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
