"""The values of a program that matter, by the reader's own lines."""

import math
import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from shardscope.arrays.paths import common_pattern, pattern_of
from shardscope.lines import lines_of_reader, source_of

if TYPE_CHECKING:
    from shardscope.propagation.shardy import Array, Operation, Propagated

# What costs time or memory, or decides how values are sharded.
_SHOWN = {
    *("dot_general", "convolution", "gather", "scatter", "sort"),
    *("reduce", "dynamic_update_slice", "sharding_constraint"),
    *("manual_computation", "custom_call"),
}
# Values smaller than this part of the largest are left out.
_SHARE = 1 / 100
_DTYPES = {"f": "float", "i": "int", "ui": "uint", "bf": "bfloat"}


@dataclass(frozen=True, slots=True)
class ShardedValue:
    """A value of a program, how it is sharded, and what decided it.

    Attributes:
        line: The reader's line that computes it, as ``"train.py:31"`` with
            its folder; ``""`` if there is none.
        operation: The operation, as StableHLO names it.
        backward: Whether it is computed for a gradient.
        type: Dtype and shape with axes, as ``jax.typeof`` writes them;
            within a loop, those in one turn.
        bytes_per_device: Its bytes on one device.
        because: What each axis came from: the path of an argument, a
            constraint's line, ``out_shardings``.
        count: How many such values there are, as in layers that repeat.
    """

    line: str
    operation: str
    backward: bool
    type: str
    bytes_per_device: int
    because: tuple[tuple[str, str], ...]
    count: int = 1

    @property
    def source(self) -> str:
        """The text of the line."""
        return source_of(self.line)


def values_of(
    program: "Propagated", name: Callable[[str], str]
) -> tuple[ShardedValue, ...]:
    """List the values that matter, those of layers that repeat as one.

    Args:
        program: The program.
        name: Gives the name of what an axis came from.
    """
    found = [
        (each, result, bytes_of(result, program.axes))
        for each in program.operations
        if each.name in _SHOWN
        for result in each.results
        if result is not None and result.shape
    ]
    least = _SHARE * max((size for *_, size in found), default=0)
    alike: defaultdict[ShardedValue, list[list[str]]] = defaultdict(list)
    for operation, result, size in found:
        axes = [axis for part in result.spec for axis in part]
        causes = [name(result.origins.get(axis, "")) for axis in axes]
        value = ShardedValue(
            line_of(operation),
            operation.name,
            operation.backward,
            type_of(result),
            size,
            tuple(zip(axes, map(pattern_of, causes), strict=True)),
        )
        if size >= least:
            alike[value].append(causes)
    return tuple(
        replace(
            value,
            count=len(same),
            because=tuple(
                (axis, common_pattern(causes))
                for (axis, _), causes in zip(
                    value.because, zip(*same, strict=True), strict=True
                )
            ),
        )
        for value, same in alike.items()
    )


def line_of(operation: "Operation") -> str:
    """Give the reader's line of an operation, the innermost one."""
    return next(iter(lines_of_reader(operation.frames)), "")


def bytes_of(array: "Array", axes: dict[str, int]) -> int:
    """Count the bytes of an array on one device."""
    elements = 1
    for size, names in zip(array.shape, array.spec, strict=True):
        parts = math.prod(axes.get(axis, 1) for axis in names)
        elements *= -(-size // parts)
    width = re.search(r"\d+", array.dtype)
    bits = int(width[0]) if width and array.dtype != "i1" else 8
    return elements * bits * (1 + ("complex" in array.dtype)) // 8


def type_of(array: "Array") -> str:
    """Write dtype and shape with axes, as ``jax.typeof`` does."""
    found = re.fullmatch(r"(bf|ui|f|i)(\d+)", array.dtype)
    dtype = f"{_DTYPES[found[1]]}{found[2]}" if found else array.dtype
    sizes = []
    for size, names in zip(array.shape, array.spec, strict=True):
        axes = names[0] if len(names) == 1 else f"({','.join(names)})"
        sizes.append(f"{size}@{axes}" if names else str(size))
    return f"{'bool' if array.dtype == 'i1' else dtype}[{','.join(sizes)}]"
