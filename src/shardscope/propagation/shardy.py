"""Ask Shardy, which jax ships, how each value of a program is sharded.

Nothing is compiled, and no device is needed. The names of Shardy's passes
and attributes are no stable API: they are those of jax 0.10.2 and 0.12.0.1.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import zip_longest
from typing import Any, NamedTuple, TypeAlias

import jax
from jaxlib.mlir import ir, passmanager
from jaxlib.mlir.dialects import sdy

from shardscope.propagation.inlining import (
    functions_of,
    inline_calls,
    number_of,
    rewrite_like_xla,
)
from shardscope.propagation.meshes import meshes_in, sizes_of

_DEBUG = "{debug-sharding-origins=true}"
PASSES = (
    "sdy-import-pipeline",
    f"sdy-user-priority-propagate{_DEBUG}",
    "func.func(sdy-sink-data-flow-edges{sink-debug-sharding-origins=true})",
    "func.func(sdy-populate-op-sharding-rules)",
)
_SHARDING, _ORIGINS = "sdy.sharding", "sdy.sharding_origins"
_RULE = "sdy.sharding_rule"
_FRAME = re.compile(r'"([^"]+)":(\d+)')
_SCOPE = re.compile(r'^loc\("([^"]*)"')
# Values that are computed from one argument alone are still that argument.
_VIEWS = {
    *("convert", "reshape", "transpose", "slice", "dynamic_slice", "copy"),
    *("broadcast_in_dim", "optimization_barrier", "select", "add", "clamp"),
    *("compare", "negate", "pad", "reverse", "sharding_constraint", "and"),
    *("minimum", "maximum", "subtract", "multiply", "reshard"),
}
# What is the same on all devices before any of it is sharded.
CONSTANT = -1

Spec: TypeAlias = tuple[tuple[str, ...], ...]
Frames: TypeAlias = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Array:
    """A value of a program.

    Attributes:
        shape: Its shape; within a loop, that in one turn.
        dtype: Its dtype, as StableHLO names it.
        spec: The mesh axes of each of its dimensions.
        origins: What each axis came from, as Shardy names it.
        argument: The number of the argument that it is a view of,
            ``CONSTANT``, or None if it is computed from several.
    """

    shape: tuple[int, ...]
    dtype: str
    spec: Spec
    origins: Mapping[str, str]
    argument: int | None = None


class Place(NamedTuple):
    """Where an operation comes from.

    Attributes:
        frames: Files and numbers of lines, from the innermost outwards.
        scope: The transformations and functions that it is in.
    """

    frames: Frames = ()
    scope: str = ""


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation of a program, outside of what is manual.

    Attributes:
        name: Its name, such as ``"dot_general"``.
        operands: What it takes; None for what isn't an array.
        results: What it gives.
        taken: The factors of each dimension of each operand.
        given: Those of each result.
        sizes: The size of each factor.
        origin: As what later values name it, if it is a constraint.
    """

    name: str
    operands: tuple[Array | None, ...]
    results: tuple[Array | None, ...]
    taken: tuple[tuple[tuple[int, ...], ...], ...] = ()
    given: tuple[tuple[tuple[int, ...], ...], ...] = ()
    sizes: tuple[int, ...] = ()
    origin: str = ""
    place: Callable[[], Place] = Place

    @property
    def frames(self) -> Frames:
        """Files and numbers of lines, from the innermost outwards."""
        return self.place().frames

    @property
    def backward(self) -> bool:
        """Whether it is computed for a gradient."""
        return "transpose(" in self.place().scope


@dataclass(frozen=True, slots=True)
class Propagated:
    """A program after propagation.

    Attributes:
        axes: The sizes of the mesh axes.
        operations: Its operations in their order.
        names: What jax calls its arguments, ``""`` if nothing.
        arguments: Its arguments.
    """

    axes: dict[str, int]
    operations: tuple[Operation, ...]
    names: tuple[str, ...]
    arguments: tuple[Array | None, ...] = ()


def propagate(lowered: Any) -> Propagated:
    """Propagate shardings in a copy of a program, or of its module.

    Raises:
        RuntimeError: If this version of jax has no such passes.
    """
    module = lowered
    if hasattr(lowered, "compiler_ir"):
        module = lowered.compiler_ir("stablehlo")
    with module.context:
        if not sizes_of(meshes_in(module)):
            return Propagated({}, (), ())
        # Passes change a module, and Lowered keeps this one.
        text = module.operation.get_asm(enable_debug_info=True)
        module = ir.Module.parse(text)
        calls, together = run_passes(module)
        return _Reader(calls, together).read(module)


def run_passes(module: Any) -> tuple[list[Any], dict[int, list[Any]]]:
    """Propagate shardings in a program, with its calls inlined.

    Returns:
        The calls, as :func:`inline_calls` gives them.
    """
    found = inline_calls(module)
    rewrite_like_xla(module)
    pipeline = f"builtin.module({','.join(PASSES)})"
    try:
        passes = passmanager.PassManager.parse(pipeline)
    except ValueError as error:
        raise RuntimeError(f"Shardy has no such passes: {error}") from error
    passes.run(module.operation)
    return found


def numbers_of_arguments(lowered: Any) -> list[int]:
    """Number the arguments that a program uses; others are -1."""
    count = len(jax.tree.leaves(lowered.args_info))
    kept = sorted(lowered._lowering.compile_args["kept_var_idx"])
    return [kept.index(at) if at in kept else -1 for at in range(count)]


class _Reader:
    """Read a module after propagation."""

    def __init__(
        self, calls: list[Any], together: dict[int, list[Any]]
    ) -> None:
        self.calls = calls
        self.together = together
        self.arrays: dict[Any, Array] = {}
        self.around: dict[int, Frames] = {}
        self._spec, self._factors = cache(_spec), cache(_factors)
        self._frames = cache(_frames)

    def read(self, module: Any) -> Propagated:
        axes = sizes_of(meshes_in(module))
        main = functions_of(module)["main"]
        (block,) = main.regions[0]
        given = [*main.attributes.get("arg_attrs", ())]
        arguments = []
        for number, (value, each) in enumerate(
            zip_longest(block.arguments, given)
        ):
            about: Any = ir.DictAttr(each) if each else {}
            sharding = (
                sdy.TensorShardingAttr(about[_SHARDING])
                if _SHARDING in about
                else None
            )
            names = {
                axis: f"input: {number}"
                for part in _spec(sharding)
                for axis in part
            }
            arguments.append(self._array(value, sharding, names, number))
        known = [_SCOPE.match(str(x.location)) for x in block.arguments]
        return Propagated(
            axes,
            tuple(self._operations(main)),
            tuple(scope[1] if scope else "" for scope in known),
            tuple(arguments),
        )

    def _operations(self, operation: Any) -> Iterator[Operation]:
        """Read the operations within one, but for what is manual."""
        for region in operation.regions:
            for block in region:
                for each in block:
                    inner = each.operation
                    yield self._operation(inner)
                    if inner.name == "stablehlo.while":
                        self._enter_loop(inner)
                    if inner.name in ("stablehlo.while", "stablehlo.case"):
                        yield from self._operations(inner)

    def _operation(self, operation: Any) -> Operation:
        name = operation.name.rpartition(".")[2]
        operands = tuple(map(self.arrays.get, operation.operands))
        argument = None
        known = [x.argument for x in operands if x is not None]
        # Where a slice is taken doesn't say of what.
        views = {*known[: 1 if "slice" in name else None]} - {CONSTANT}
        if {*known} <= {CONSTANT} and len(known) == len(operands):
            argument = CONSTANT
        elif name in _VIEWS and len(views) == 1:
            (argument,) = views
        attributes = operation.attributes
        shardings = _shardings(attributes)
        origins = [_names(each) for each in _origins_of(attributes)]
        own = ""
        if "sdy.sharding_origin_name" in attributes:
            own = ir.StringAttr(
                attributes["sdy.sharding_origin_name"]
            ).value
        if name == "sharding_constraint":
            shardings = [sdy.TensorShardingAttr(attributes["sharding"])]
            axes = {axis for part in _spec(shardings[0]) for axis in part}
            origins = [dict.fromkeys(axes, own)]
        results = [
            self._array(
                value,
                shardings[at] if at < len(shardings) else None,
                origins[at] if at < len(origins) else {},
                argument,
            )
            for at, value in enumerate(operation.results)
        ]
        taken, made, sizes = (), (), ()
        if _RULE in attributes:
            taken, made, sizes = self._factors(attributes[_RULE])
        return Operation(
            name,
            operands,
            tuple(results),
            taken,
            made,
            sizes,
            own,
            partial(self._place, operation.location, number_of(operation)),
        )

    def _enter_loop(self, loop: Any) -> None:
        """Give the arrays of a loop what is known of its results."""
        *_, last = loop.regions[1].blocks[0]
        for region in loop.regions:
            for at, value in enumerate(region.blocks[0].arguments):
                result = self.arrays.get(loop.results[at])
                given = self.arrays.get(loop.operands[at])
                if result is None:
                    continue
                back = last.operation.operands[at]
                same = back == loop.regions[1].blocks[0].arguments[at]
                argument = given.argument if given and same else None
                self.arrays[value] = replace(result, argument=argument)

    def _place(self, location: Any, number: int) -> Place:
        """Give the lines of an operation and of the calls around it.

        jax traces a function once, so the lines within it may end with
        those of another call of it.
        """
        frames = self._frames(str(location))
        if number >= 0:
            frames = self._joined(frames, number)
        scope = ""
        while True:
            found = _SCOPE.match(str(location))
            scope = f"{found[1] if found else ''}/{scope}"
            if number < 0:
                return Place(frames, scope)
            location, number = self.calls[number]

    def _joined(self, inner: Frames, number: int) -> Frames:
        """Put the lines of a call in place of those of another one."""
        if number not in self.around:
            location, around = self.calls[number]
            outer = self._frames(str(location))
            self.around[number] = (
                self._joined(outer, around) if around >= 0 else outer
            )
        for location in self.together[number]:
            other = self._frames(str(location))
            if other and inner[-len(other) :] == other:
                inner = inner[: -len(other)]
                break
        return inner + self.around[number]

    def _array(
        self, value: Any, sharding: Any, origins: Any, argument: int | None
    ) -> Array | None:
        """Describe a value and note it, if it is an array."""
        if not isinstance(value.type, ir.RankedTensorType):
            return None
        shape = tuple(value.type.shape)
        self.arrays[value] = Array(
            shape,
            str(value.type.element_type),
            self._spec(sharding) or ((),) * len(shape),
            origins,
            argument,
        )
        return self.arrays[value]


def _frames(location: str) -> Frames:
    """Read the lines that a location has."""
    return tuple((file, int(n)) for file, n in _FRAME.findall(location))


def _origins_of(attributes: Any) -> list[Any]:
    """Give the origins of the results of an operation."""
    for key in (_ORIGINS, "sdy.result_sharding_origins"):
        if key in attributes and isinstance(attributes[key], ir.ArrayAttr):
            return [*attributes[key]]
    return []


def _shardings(attributes: Any) -> list[Any]:
    """Give the shardings of the results of an operation."""
    key = _SHARDING if _SHARDING in attributes else "out_shardings"
    if key not in attributes:
        return []
    each = sdy.TensorShardingPerValueAttr(attributes[key]).shardings
    return [sdy.TensorShardingAttr(sharding) for sharding in each]


def _names(origins: Any) -> dict[str, str]:
    """Read what each axis of a value came from."""
    return {
        named.name: ir.StringAttr(named.attr).value
        for named in map(origins.__getitem__, range(len(origins)))
    }


def _spec(sharding: Any) -> Spec:
    """Read the axes of dimensions; a part of one is ``"x:(1)2"``."""
    if sharding is None:
        return ()
    return tuple(
        tuple(
            _axis(sdy.AxisRefAttr(axis))
            for axis in sdy.DimensionShardingAttr(each).axes
        )
        for each in sharding.dimension_shardings
    )


def _axis(axis: Any) -> str:
    return axis.name if axis.sub_axis_info is None else str(axis)


def _factors(attribute: Any) -> Any:
    """Read the factors of operands and results, and their sizes."""
    rule = sdy.OpShardingRuleAttr(attribute)

    def factors(mappings: Any) -> Any:
        return tuple(
            tuple(
                tuple(sdy.DimMappingAttr(each).factor_indices)
                for each in sdy.TensorMappingAttr(mapping).dim_mappings
            )
            for mapping in mappings
        )

    return (
        factors(rule.operand_mappings),
        factors(rule.result_mappings),
        tuple(rule.factor_sizes),
    )
