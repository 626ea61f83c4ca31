"""Compare how Shardy shards each value with what XLA says of it.

XLA calls back with the sharding of what an ``InspectSharding`` takes, as
:func:`jax.debug.inspect_array_sharding` has it. One is put behind each
operation of a program before it is compiled.
"""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

from jax._src import compiler
from jax._src.lib import xla_client
from jax.sharding import AbstractMesh, NamedSharding, PartitionSpec as P
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from shardscope.propagation.inlining import functions_of, operations_in
from shardscope.propagation.meshes import meshes_in
from shardscope.propagation.shardy import _shardings, _spec, run_passes

TAG = "shardscope.tag"
# A program has but the address of what it calls back, and may be compiled
# again.
KEPT: list[Any] = []
NAMES = {
    *("dot_general", "gather", "scatter", "reduce", "convolution", "sort"),
    *("dynamic_update_slice", "dynamic_slice", "concatenate", "transpose"),
    *("reshape", "add", "multiply", "select", "exponential", "tanh"),
}


@dataclass
class Compared:
    """What was compared.

    Attributes:
        values: How many values.
        different: Those that differ: the operation, Shardy's, XLA's.
    """

    values: int
    different: list[tuple[str, set[str], set[str]]]


@contextmanager
def comparing() -> Iterator[Compared]:
    """Compare the values of all programs that are compiled inside."""
    compiled = compiler.compile_or_get_cached
    found = Compared(0, [])

    def compile_(
        backend: Any, module: Any, devices: Any, *rest: Any
    ) -> Any:
        mesh = mesh_of(module)
        if devices.size == 1 or mesh is None:
            return compiled(backend, module, devices, *rest)
        with module.context, ir.Location.unknown():
            operations = [*tagged(module)]
            copy = ir.Module.parse(module.operation.get_asm())
            run_passes(copy)
            ours = specs_of(copy)
            told = inspect(operations)
        program = compiled(backend, module, devices, *rest)
        for tag, (words, specs) in ours.items():
            if tag in told:
                found.values += 1
                mine = {str(as_hlo(mesh, spec)) for spec in specs}
                if mine != told[tag]:
                    found.different.append((words, mine, told[tag]))
        return program

    with mock.patch.object(compiler, "compile_or_get_cached", compile_):
        yield found


def mesh_of(module: Any) -> AbstractMesh | None:
    """Give the mesh of a program, if it has one."""
    for axes in filter(None, meshes_in(module)):
        return AbstractMesh(tuple(axes.values()), tuple(axes))
    return None


def as_hlo(mesh: AbstractMesh, spec: Any) -> Any:
    """Write a spec as XLA does."""
    return NamedSharding(mesh, P(*spec))._to_xla_hlo_sharding(len(spec))


def tagged(module: Any) -> Iterator[Any]:
    """Number the operations that can be compared, and give them."""
    for each in operations_in(module.operation):
        name = each.name.rpartition(".")[2]
        uses = [str(use.owner) for x in each.results for use in x.uses]
        if (
            name in NAMES
            and len(each.results) == 1
            and each.results[0].type.shape
            # Shardy allows nothing but a sum to take partial sums, and of
            # what is constant each use has its own.
            and not any("unreduced" in x for x in [str(each), *uses])
            and not is_constant(each)
        ):
            tag = str(hash(each) & 0xFFFFFFFF)
            each.attributes[TAG] = ir.StringAttr.get(tag)
            yield each


def specs_of(module: Any) -> dict[str, tuple[str, set[Any]]]:
    """Give the specs of each tagged operation, of which copies differ."""
    found: defaultdict[str, tuple[str, set[Any]]] = defaultdict(
        lambda: ("", set())
    )
    for each in operations_in(functions_of(module)["main"]):
        if TAG in each.attributes and not is_manual(each):
            tag = ir.StringAttr(each.attributes[TAG]).value
            words = f"{each.name} {each.results[0].type} {each.location}"
            (sharding,) = _shardings(each.attributes) or [None]
            whole = ((),) * len(each.results[0].type.shape)
            spec = _spec(sharding) or whole
            found[tag] = words, found[tag][1] | {spec}
    return found


def is_constant(operation: Any) -> bool:
    """Tell whether an operation computes with constants alone."""
    owners = [value.owner for value in operation.operands]
    return all(
        not isinstance(owner, ir.Block) and is_constant(owner.operation)
        for owner in owners
    )


def is_manual(operation: Any) -> bool:
    """Tell whether an operation is within a shard_map."""
    around = operation.parent
    while around is not None:
        if around.name == "sdy.manual_computation":
            return True
        around = around.parent
    return False


def inspect(operations: list[Any]) -> dict[str, set[str]]:
    """Ask XLA for the sharding of what each operation gives."""
    told: defaultdict[str, set[str]] = defaultdict(set)
    for each in operations:
        tag = ir.StringAttr(each.attributes[TAG]).value
        del each.attributes[TAG]

        def tell(sharding: Any, tag: str = tag) -> None:
            told[tag].add(str(sharding))

        KEPT.append(tell)
        with ir.InsertionPoint(each):
            call = stablehlo.CustomCallOp(
                [each.results[0].type],
                [each.results[0]],
                call_target_name=ir.StringAttr.get("InspectSharding"),
                has_side_effect=ir.BoolAttr.get(True),
                api_version=ir.IntegerAttr.get(
                    ir.IntegerType.get_signless(32), 1
                ),
                called_computations=ir.ArrayAttr.get([]),
                backend_config=ir.StringAttr.get(
                    xla_client.encode_inspect_sharding_callback(tell)
                ),
                operand_layouts=None,
                result_layouts=None,
            )
        call.operation.move_after(each)
    return told
