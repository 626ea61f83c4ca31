"""Tell how each value of a step is sharded, and what decided it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
from jax.sharding import AbstractMesh

from shardscope.arrays.modules import expand_modules
from shardscope.lines import name_of, quoted
from shardscope.programs.arguments import match_arguments
from shardscope.programs.compiling import lower_call, unbind
from shardscope.programs.margin import html_of_source
from shardscope.programs.names import positional_names
from shardscope.propagation.lost import LostAxis, find_lost
from shardscope.propagation.origins import namer
from shardscope.propagation.values import (
    ShardedValue,
    type_of,
    values_of,
)
from shardscope.tables import filled, size

# How many lost axes are shown first, and how many lines after them.
_LOST = 3
_LINES = 24
_HEADINGS = {
    "lost": "Lost",
    "whole": "Whole",
    "asked": "Lost because a constraint asks for it",
    "": "Lost for gradients",
}


@dataclass(frozen=True, repr=False)
class Why:
    """How the values of a step are sharded, and what decided it.

    Attributes:
        rows: The values that matter, in the order of the program:
            products, gathers, reductions and constraints, none smaller
            than a hundredth of the largest.
        axes: The sizes of the mesh axes.
    """

    rows: tuple[ShardedValue, ...]
    axes: dict[str, int]
    _lost: tuple[LostAxis, ...]
    _arguments: dict[str, str]

    def lost(self, axis: str | None = None) -> tuple[LostAxis, ...]:
        """List where a value loses a mesh axis that it was given.

        First comes what nothing asks for, then the arguments that are
        whole on each device though their product is sharded, then what a
        constraint asks for, and at last what is for gradients, each in
        the order of the program.

        Args:
            axis: Only those of this axis.

        Raises:
            ValueError: If the mesh has no such axis.
        """
        if axis is not None and axis not in self.axes:
            raise ValueError(
                f"lost() got axis {axis!r}; the mesh has {[*self.axes]}"
            )
        return tuple(x for x in self._lost if axis in (None, x.axis))

    def of(self, line: str) -> tuple[ShardedValue, ...]:
        """List the values of a line, such as ``"train.py:37"``.

        Raises:
            ValueError: If no value that matters comes from it.
        """
        found = tuple(
            each
            for each in self.rows
            if each.line and line in (each.line, name_of(each.line))
        )
        if not found:
            names = {name_of(x.line): 0 for x in self.rows if x.line}
            raise ValueError(
                f"of() got {line!r}, from which no value comes that "
                f"matters; values come from {', '.join(names)}"
            )
        return found

    def _head(self) -> list[str]:
        """Write what is lost."""
        if not self.axes:
            return ["Nothing is sharded: no array or constraint has a mesh"]
        axes = ", ".join(f"{axis} {n}" for axis, n in self.axes.items())
        values = f"{len(self.rows)} value{'s' * (len(self.rows) != 1)}"
        lines = [f"{values} on a mesh of {axes}"]
        for kind, heading in _HEADINGS.items():
            found = [
                each
                for each in self._lost
                if kind == ("" if each.backward else each.kind)
            ]
            lines += [heading] * bool(found)
            for each in found[:_LOST]:
                lines += [f"  {line}" for line in each.lines()]
            if (rest := len(found) - _LOST) > 0:
                lines.append(f"  and {rest} more: see lost()")
        if not any(each.kind == "lost" for each in self._lost):
            lines.insert(1, "No loss found that nothing asks for")
        return lines

    def _by_line(self) -> list[tuple[str, list[ShardedValue]]]:
        """Give each of the reader's lines and its values."""
        lines: dict[str, list[ShardedValue]] = {}
        for each in self.rows:
            lines.setdefault(each.line, []).append(each)
        return [(quoted(line), same) for line, same in lines.items()]

    def __repr__(self) -> str:
        lines = self._head()
        for line, same in self._by_line()[:_LINES]:
            lines += ["", line]
            for each in same:
                bytes_ = size(each.bytes_per_device)
                lines.append(f"    {_words(each)}, {bytes_} each")
                lines += [f"        {a}: {x}" for a, x in each.because if x]
        if (rest := len(self._by_line()) - _LINES) > 0:
            lines += ["", f"and {rest} lines more: see rows"]
        return "\n".join(filled(lines))

    def _repr_html_(self) -> str:
        head, lines = self._head(), self._by_line()
        if (rest := len(lines) - _LINES) > 0:
            head.append(f"and {rest} lines more: see rows")
        shown = [each for _, same in lines[:_LINES] for each in same]
        return html_of_source(head, shown, self._arguments)


def _words(value: ShardedValue) -> str:
    """Write the operation and type of a value."""
    times = f" ×{value.count}" if value.count > 1 else ""
    for_ = " for a gradient" if value.backward else ""
    return f"{value.operation} {value.type}{times}{for_}"


def why(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Why:
    """Tell how each value of a call is sharded, and what decided it.

    The function is traced, as :func:`program` traces it, and Shardy, which
    propagates shardings for XLA, runs on a copy of the program. Nothing is
    compiled, and arguments may be abstract, on devices that you don't have.

    XLA may choose other collectives afterwards. What is within a
    :func:`jax.shard_map` is sharded by hand and left out.

    Args:
        function: The function, or what is already lowered, as for
            :func:`program`.
        *args: Arguments of the call, sharded as they would be in the call.
        **kwargs: Keyword arguments of the call.

    Returns:
        The values by line. Where one loses an axis comes first.

    Raises:
        TypeError: If the function isn't one, or is already compiled.
        RuntimeError: If jax has no Shardy, or one with other passes.

    Example:
        >>> import jax
        >>> from jax.sharding import NamedSharding, PartitionSpec as P
        >>> from shardscope import why
        >>> auto = jax.sharding.AxisType.Auto
        >>> mesh = jax.make_mesh((8,), ("data",), (auto,))
        >>> def put(shape, *spec):
        ...     given = NamedSharding(mesh, P(*spec))
        ...     return jax.device_put(jax.numpy.ones(shape), given)
        >>> x, w = put((64, 32), "data"), put((32, 16), None, "data")
        >>> seen = why(lambda x, w: x @ w, x, w)
        >>> [value.type for value in seen.rows]
        ['float32[64@data,16]']
        >>> seen.rows[0].because
        (('data', 'x'),)
    """
    function, args, kwargs = unbind(function, args, kwargs)
    if isinstance(function, jax.stages.Compiled):
        raise TypeError(
            "why() got a compiled program, which has no lines any more; "
            "pass the function and its arguments, or what lower() gives"
        )
    if isinstance(function, jax.stages.Lowered):
        lowered, paths = function, dict[int, str]()
    elif not callable(function):
        kind = type(function).__name__
        raise TypeError(f"why() takes a function, but got a {kind}")
    else:
        abstract = any(
            isinstance(getattr(x.sharding, "mesh", None), AbstractMesh)
            for x in jax.tree.leaves(expand_modules((args, kwargs)))
            if isinstance(x, jax.ShapeDtypeStruct)
        )
        # An abstract mesh doesn't say for what.
        platform = "tpu" if abstract else ""
        lowered = lower_call(function, args, kwargs, platform)
        names = positional_names(function, len(args), kwargs)
        numbers = iter(_shardy().numbers_of_arguments(lowered))
        places = jax.tree.map(
            lambda info: _Place(info.shape, next(numbers)),
            lowered.args_info,
        )
        matched = match_arguments((args, kwargs), names, places) or []
        paths = {place.number: path for path, _, place in matched}
    program = _shardy().propagate(lowered)
    name = namer(program, paths, lowered)
    types = {
        name(f"input: {at}"): type_of(array)
        for at, array in enumerate(program.arguments)
        if array
    }
    rows, lost = values_of(program, name), find_lost(program, name)
    return Why(rows, program.axes, lost, types)


def _shardy() -> Any:
    """Import what not every jaxlib has."""
    try:
        from shardscope.propagation import shardy
    except ImportError as error:
        raise RuntimeError(
            f"why() needs Shardy, which this jaxlib lacks: {error}"
        ) from error
    return shardy


@dataclass(frozen=True, slots=True)
class _Place:
    """An argument of a program: its shape, and its number if it is used."""

    shape: tuple[int, ...]
    number: int
