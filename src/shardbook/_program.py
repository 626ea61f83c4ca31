"""Report what a compiled call does, without running it."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from flax import nnx

from shardbook._collectives import count_collectives
from shardbook._layout import (
    Slice,
    expand_modules,
    is_graph_node,
    slices_of,
    strip_value,
)

_WIDTH = 60


@dataclass(frozen=True)
class Memory:
    """Bytes that a compiled program needs on one device.

    Attributes:
        arguments: Bytes of the arguments.
        results: Bytes of the results.
        temporaries: Bytes of what is computed on the way.
        donated: Bytes of the results that take the place of donated
            arguments, and so need no memory of their own.
    """

    arguments: int
    results: int
    temporaries: int
    donated: int

    @property
    def total(self) -> int:
        """Bytes of all of it together, what is donated counted once."""
        # Not XLA's peak_memory_in_bytes: on CPU it leaves out temporaries.
        return (
            self.arguments + self.results + self.temporaries - self.donated
        )


@dataclass(frozen=True, repr=False)
class Program:
    """What one call of a function does, compiled for its arguments.

    It prints as a table.

    Attributes:
        collectives: The number of collectives of each kind, such as
            ``{"all-reduce": 1}``. One inside a loop counts once, however
            often the loop runs; one among groups of a single device does
            not count.
        memory: The bytes that the program needs on one device.
        copies: The arguments that have to be moved before the program
            starts, by path as :func:`jax.tree_util.keystr` writes it,
            ``"[0]['kernel']"`` or ``"['x']"``. Each has the bytes that all
            devices together are given: its slice on each device that
            does not hold exactly this slice already.
        text: The optimized program, in XLA's HLO.
    """

    collectives: Mapping[str, int]
    memory: Memory
    copies: Mapping[str, int]
    text: str

    @classmethod
    def of(
        cls,
        text: str,
        memory_stats: Any,
        copies: Mapping[str, int] | None = None,
    ) -> "Program":
        """Describe a program that is compiled already.

        Args:
            text: The optimized program, in HLO.
            memory_stats: What ``memory_analysis()`` of a
                :class:`jax.stages.Compiled` gives, or
                ``get_compiled_memory_stats()`` of an executable.
            copies: The arguments to be moved, by path, in bytes.
        """
        return cls(
            collectives=count_collectives(text),
            memory=Memory(
                arguments=memory_stats.argument_size_in_bytes,
                results=memory_stats.output_size_in_bytes,
                temporaries=memory_stats.temp_size_in_bytes,
                donated=memory_stats.alias_size_in_bytes,
            ),
            copies=dict(copies or {}),
            text=text,
        )

    def __repr__(self) -> str:
        memory = {
            "arguments": self.memory.arguments,
            "results": self.memory.results,
            "temporaries": self.memory.temporaries,
            "donated": -self.memory.donated,
            "total": self.memory.total,
        }
        lines = [
            *_table("memory", "bytes on one device", memory),
            *_table("collectives", "count", self.collectives),
            *_table("copies of arguments", "bytes", self.copies),
        ]
        return "\n".join(lines)


def _table(title: str, unit: str, rows: Mapping[str, int]) -> Iterator[str]:
    """Give the lines of one table of numbers."""
    yield title + unit.rjust(_WIDTH - len(title))
    for name, number in rows.items():
        figure = f" {number:,}"
        space = _WIDTH - len(figure) - 2
        if len(name) > space:
            # The end of a path says more than its start.
            name = "..." + name[3 - space :]
        yield f"  {name.ljust(space)}{figure}"
    if not rows:
        yield "  none"


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array | np.ndarray | jax.ShapeDtypeStruct)


def _lower(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Lower a function, with the arguments bound that are not arrays."""
    if is_graph_node(getattr(function, "__self__", function)):
        raise TypeError(
            "expected a function that takes its Module as an argument, "
            "such as program(lambda model, x: model(x), model, x); got "
            f"{function!r}, whose arrays would be constants"
        )
    treedef: Any
    leaves, treedef = jax.tree.flatten(
        (args, kwargs), is_leaf=is_graph_node
    )

    def call(*args: Any, **kwargs: Any) -> Any:
        traced = treedef.flatten_up_to((args, kwargs))
        given = [
            bound if leaf is None else leaf
            for bound, leaf in zip(leaves, traced, strict=True)
        ]
        args, kwargs = jax.tree.unflatten(treedef, given)
        return function(*args, **kwargs)

    # Under jax.jit, what a function writes into a Module is lost, and XLA
    # would leave out the work that leads to it.
    has_nodes = any(map(is_graph_node, leaves))
    jitted: Any = nnx.jit(call) if has_nodes else jax.jit(call)
    traced = [
        leaf if _is_array(leaf) or is_graph_node(leaf) else None
        for leaf in leaves
    ]
    args, kwargs = jax.tree.unflatten(treedef, traced)
    return jitted.lower(*args, **kwargs)


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


def _copies(given: Any, lowered: Any, compiled: Any) -> dict[str, int]:
    """Count the bytes of the arguments that have to be moved, by path."""
    wanted = jax.tree.map(
        # The sharding is None if the program does not use the argument.
        lambda info, sharding: jax.ShapeDtypeStruct(
            info.shape, info.dtype, sharding=sharding
        ),
        lowered.args_info,
        compiled.input_shardings,
    )
    # nnx.jit splits each Module; put together again, it has its paths.
    wanted = nnx.from_tree(wanted, merge_fn=_merge)
    # Static arguments are given and not wanted, those that
    # nnx.jit_partial has bound are wanted and not given, and come first.
    # So an array is the last that fits of those that are left.
    left = reversed(_leaves(wanted))
    copies = {}
    for path, leaf in reversed(_leaves(expand_modules(given))):
        if not _is_array(leaf):
            continue
        place = next(
            place
            for its_path, place in left
            if _names(its_path) == _names(path)
            and place.shape == leaf.shape
        )
        if moved := _bytes_moved(leaf, place):
            copies[jax.tree_util.keystr(path[1:])] = moved
    return dict(reversed(copies.items()))


def _bytes_moved(leaf: Any, place: jax.ShapeDtypeStruct) -> int:
    """Count the bytes that devices receive before the program starts."""
    abstract = isinstance(leaf, jax.ShapeDtypeStruct)
    if place.sharding is None or (abstract and leaf.sharding is None):
        return 0
    held: dict[jax.Device, Slice] = {}
    if not isinstance(leaf, np.ndarray):
        held = slices_of(leaf.sharding, place.shape)
    needed = slices_of(place.sharding, place.shape)
    shard_shape = place.sharding.shard_shape(place.shape)
    shard_bytes: int = math.prod(shard_shape) * place.dtype.itemsize
    return shard_bytes * sum(
        held.get(device) != part for device, part in needed.items()
    )


def program(
    function: Callable[..., Any], *args: Any, **kwargs: Any
) -> Program:
    """Compile a call, and report what it does; nothing is run.

    Args:
        function: The function to compile. One that has ``lower``, as
            :func:`jax.jit` and :func:`flax.nnx.jit` give it, is compiled
            as it is. Any other is put under :func:`flax.nnx.jit` if an
            argument is or holds a Module or Variable, and under
            :func:`jax.jit` if none does; its arrays are then traced, and
            all other arguments (a mesh, a number, a function) are bound.
            Pass all arrays as arguments: those that a function closes
            over are constants of the program, wherever they are.
        *args: Arguments of the call, laid out as they would be. Arrays
            may be abstract: a :class:`jax.ShapeDtypeStruct` is taken to
            be where its sharding says, or where the call wants it.
        **kwargs: Keyword arguments of the call.

    Returns:
        The collectives, the bytes on a device, and the arguments that
        have to be moved first: NumPy arrays, and arrays on one device of
        a call that runs on several. Numbers are left out.

    Raises:
        TypeError: If the function can't be traced with these arguments,
            or returns something other than arrays, or is a Module or a
            method of one. Other errors that it raises while it is traced
            are passed on.

    Example:
        >>> import jax
        >>> from jax.sharding import NamedSharding, PartitionSpec as P
        >>> from shardbook import program
        >>> auto = jax.sharding.AxisType.Auto
        >>> mesh = jax.make_mesh((2, 4), ("data", "model"), (auto, auto))
        >>> rows = NamedSharding(mesh, P("model"))
        >>> w = jax.device_put(jax.numpy.ones((64, 16)), rows)
        >>> x = jax.numpy.ones((8, 64))
        >>> program(jax.numpy.matmul, x, w)
        memory                                   bytes on one device
          arguments                                            1,536
          results                                                512
          temporaries                                            512
          donated                                                  0
          total                                                2,560
        collectives                                            count
          all-reduce                                               1
        copies of arguments                                    bytes
          [0]                                                  4,096
    """
    if hasattr(function, "lower"):
        lowered = function.lower(*args, **kwargs)
    else:
        lowered = _lower(function, args, kwargs)
    compiled = lowered.compile()
    copies = _copies((args, kwargs), lowered, compiled)
    return Program.of(
        compiled.as_text(), compiled.memory_analysis(), copies
    )


def collectives(
    function: Callable[..., Any], *args: Any, **kwargs: Any
) -> dict[str, int]:
    """Count the collectives in the compiled program of a call.

    The short form of :func:`program`, which takes the same arguments and
    raises the same errors. It gives the number of each kind, such as
    ``{"all-reduce": 1}``, and nothing if no device needs another.

    Example:
        >>> import jax
        >>> from jax.sharding import NamedSharding, PartitionSpec as P
        >>> from shardbook import collectives
        >>> auto = jax.sharding.AxisType.Auto
        >>> mesh = jax.make_mesh((8,), ("model",), (auto,))
        >>> x = jax.device_put(
        ...     jax.numpy.ones((16, 4)), NamedSharding(mesh, P("model"))
        ... )
        >>> collectives(lambda x: 2 * x, x), collectives(jax.numpy.sum, x)
        ({}, {'all-reduce': 1})
    """
    return dict(program(function, *args, **kwargs).collectives)
