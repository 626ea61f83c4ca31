"""Find where a value loses a mesh axis that it came with."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from shardscope.arrays.paths import common_pattern, pattern_of
from shardscope.lines import quoted
from shardscope.propagation.origins import namer
from shardscope.propagation.values import bytes_of, line_of, type_of

if TYPE_CHECKING:
    from shardscope.propagation.shardy import Array, Operation, Propagated

# What gives a part of what it takes, and so may have to gather it.
_PARTS = {"slice", "dynamic_slice", "pad", "concatenate", "reshape"}
_PRODUCTS = {"dot_general", "convolution"}
# What is smaller than this part of the largest value is left out. The
# logits of a large vocabulary are far larger than what is lost before.
_SHARE = 1 / 1000


@dataclass(frozen=True, slots=True)
class LostAxis:
    """A line whose result lacks a mesh axis that it was given.

    Attributes:
        axis: The mesh axis.
        line: The reader's line, with its folder; ``""`` if there is none.
        operation: The operation, as StableHLO names it.
        kind: ``"lost"``; ``"asked"`` if a constraint on this line asks for
            it; or ``"whole"`` for an argument that lacks the axis, over
            which its product is sharded.
        before: The type of what the line takes, with its axes.
        after: The type of the result, with its axes.
        origin: What the axis came from, or the argument that is whole.
        because: What gave the axis to another dimension, or took it;
            ``""`` if this isn't known.
        bytes: The bytes of the result on one device; of an argument that
            is whole, its own.
        backward: Whether it is computed for a gradient.
        count: How many operations of this line are alike.
    """

    axis: str
    line: str
    operation: str
    kind: str
    before: str
    after: str
    origin: str
    because: str
    bytes: int
    backward: bool
    count: int = 1

    def lines(self) -> list[str]:
        """Write the line, what is lost, and how it is sharded."""
        cause = f", because of {self.because}" if self.because else ""
        had = "gave" if self.origin.startswith(("the ", "a ")) else "had"
        origin = self.origin or "its operand"
        said = f"loses '{self.axis}', which {origin} {had}{cause}"
        if self.kind == "whole":
            said = (
                f"{self.origin} is whole over '{self.axis}', though its "
                f"product is sharded over it{cause}"
            )
        times = f", {self.count} times" if self.count > 1 else ""
        what = self.operation + " for a gradient" * self.backward
        return [
            quoted(self.line),
            f"  {said}",
            f"  {what}: {self.before} -> {self.after}{times}",
        ]

    def __str__(self) -> str:
        return "\n".join(self.lines())


def find_lost(
    program: "Propagated", name: Callable[[str], str]
) -> tuple[LostAxis, ...]:
    """Find the operations at which values lose axes.

    An axis that a product or sum runs over is used, and not lost. A weight
    that is gathered for a product, as FSDP does, isn't a loss either: only
    what several arguments went into, or the rows of one.

    Args:
        program: The program.
        name: Gives the name of what an axis came from.

    Returns:
        First what nothing asks for, then arguments that are whole, then
        what a constraint asks for, then what is for gradients; each in
        the order of the program. Of a line and a cause, the first.
    """
    sizes = [
        bytes_of(result, program.axes)
        for each in program.operations
        for result in each.results
        if result
    ]
    least = _SHARE * max(sizes, default=0)
    alike: defaultdict[tuple[Any, ...], list[LostAxis]] = defaultdict(list)
    for operation in program.operations:
        for each in _lost_at(operation, program.axes, name):
            if each.bytes >= least:
                cause = pattern_of(each.because)
                key = each.axis, each.line, each.kind, each.backward, cause
                alike[key].append(each)
    found = [
        replace(
            same[0],
            count=len(same),
            because=common_pattern(each.because for each in same),
            origin=common_pattern(
                each.origin
                for each in same
                if pattern_of(each.origin) == pattern_of(same[0].origin)
            ),
        )
        for same in alike.values()
    ]
    kinds = ["lost", "whole", "asked"]
    return tuple(
        sorted(found, key=lambda x: (x.backward, kinds.index(x.kind)))
    )


def lost_if_known(
    lowered: Any, paths: Iterable[str] = ()
) -> tuple[LostAxis, ...]:
    """Find where values lose axes, if this version of jax can tell.

    Args:
        lowered: The program, a :class:`jax.stages.Lowered` or a module.
        paths: The paths of its arguments.
    """
    if lowered is None:
        return ()
    try:
        from shardscope.propagation.shardy import propagate

        seen = propagate(lowered)
        return find_lost(seen, namer(seen, dict(enumerate(paths)), lowered))
    # Shardy's passes are no stable API, and no report needs them.
    except Exception:
        return ()


def _lost_at(
    operation: "Operation", axes: dict[str, int], name: Callable[[str], str]
) -> Iterator[LostAxis]:
    """Find what is lost, or whole, at one operation."""
    for before, rows, held, kept in _factors(operation, axes):
        (after,) = operation.results
        assert after is not None

        found = [
            (
                axis,
                "asked" if operation.origin else "lost",
                before.origins.get(axis, ""),
                operation.origin or _cause(after, axis, kept),
                bytes_of(after, axes),
            )
            for axis in held
            if axis not in kept
            and (rows or before.argument is None)
            # What is gathered for sharded rows is a weight, if a new one.
            and (rows or axis not in after.spec[0])
        ]
        is_product = operation.name in _PRODUCTS and not operation.backward
        if is_product and before.argument not in (None, -1):
            given = f"input: {before.argument}"
            used = {*held, *(axis for part in before.spec for axis in part)}
            found += [
                (
                    axis,
                    "whole",
                    given,
                    after.origins.get(axis, ""),
                    bytes_of(before, axes),
                )
                for axis in kept
                if axis not in used
            ]
        for axis, kind, origin, cause, size in found:
            yield LostAxis(
                axis,
                line_of(operation),
                operation.name,
                kind,
                type_of(before),
                type_of(after),
                name(origin),
                name(cause),
                size,
                operation.backward,
            )


def _cause(after: "Array", axis: str, kept: tuple[str, ...]) -> str:
    """Tell where the axis is from, or what is in its place."""
    taken = [each for each in (axis, *kept) if each in after.origins]
    return after.origins[taken[0]] if taken else ""


def _factors(
    operation: "Operation", axes: dict[str, int]
) -> Iterator[tuple["Array", bool, tuple[str, ...], tuple[str, ...]]]:
    """Give the factors that operands and the result have in common.

    Each with its operand, whether it is the rows of both, and the axes over
    which the operand and the result are sharded.
    """
    if operation.name in _PARTS or len(operation.results) != 1:
        return
    (after,) = operation.results
    taken, given, sizes = operation.taken, operation.given, operation.sizes
    if after and operation.name == "sharding_constraint":
        # It has no rule, and all dimensions stay what they are.
        each = tuple((at,) for at in range(len(after.shape)))
        taken, given, sizes = (each,), (each,), after.shape
    if after is None or not given:
        return
    kept = _axes_of(after, given[0], sizes, axes)
    places = {
        factor: at for at, all_ in enumerate(given[0]) for factor in all_
    }
    for before, factors in zip(operation.operands, taken, strict=False):
        if before is None:
            continue
        held = _axes_of(before, factors, sizes, axes)
        for at, all_ in enumerate(factors):
            for factor in all_:
                if factor in places:
                    yield (
                        before,
                        at == places[factor] == 0,
                        held.get(factor, ()),
                        kept.get(factor, ()),
                    )


def _axes_of(
    array: "Array",
    dimensions: tuple[tuple[int, ...], ...],
    sizes: tuple[int, ...],
    axes: dict[str, int],
) -> dict[int, tuple[str, ...]]:
    """Give the axes over which each factor is sharded."""
    found: dict[int, tuple[str, ...]] = {}
    for names, factors in zip(array.spec, dimensions, strict=False):
        left = [*factors]
        room = sizes[left[0]] if left else 1
        for axis in names:
            if axis not in axes or not left:
                break
            found[left[0]] = (*found.get(left[0], ()), axis)
            room //= axes[axis]
            if room <= 1 and len(left) > 1:
                left.pop(0)
                room = sizes[left[0]]
    return found
