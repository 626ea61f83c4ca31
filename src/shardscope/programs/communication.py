"""What a compiled program communicates: its collectives."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache

from shardscope.hlo import (
    Instruction,
    Module,
    Run,
    Sources,
    arrays_in,
    bytes_in,
    direction_of,
    names_of_parameters,
    parameter_of,
    root_of,
    runs_of,
)
from shardscope.programs.carried import avoidable, is_passed_on
from shardscope.programs.collective import (
    KINDS,
    RAGGED,
    SENT,
    Collective,
)
from shardscope.programs.groups import (
    PAIRS,
    Groups,
    axes_along,
    groups_of,
)

# What only collectives have, and not those that merely end one.
_GROUPS = "replica_groups="
_OPCODE = re.compile(rf"({'|'.join(KINDS)})(?:-start)?")
# The TPU's compiler may spread one over several fusions, with what else is
# computed meanwhile.
_CHAIN = re.compile(r"channel_id=(\d+),.* frontend_attributes=\{chain_id=")
_INSERTED = 'is_spmd_generated="true"'
_REDUCTIONS = ("add", "maximum", "minimum", "multiply", "and", "or")
_DIMENSION = re.compile(r"\bdimensions=\{(\d+)\}")


def communication(
    module: Module,
    *meshes: Mapping[str, int],
    ids: Sequence[int] = (),
    arguments: Sequence[str] = (),
) -> tuple[Collective, ...]:
    """Give the collectives of a compiled program, in its order.

    Those whose groups are single devices are left out.

    Args:
        module: The optimized program.
        *meshes: The meshes of the program, each with the sizes of its
            axes by their names, in order.
        ids: The ids of the program's devices, in its order. Without, their
            positions are taken for ids.
        arguments: The paths of the arguments that the program uses, in its
            order. Without, or where one is empty, it is what XLA notes.

    Raises:
        NotImplementedError: If it has a kind of collective that has no
            entry in ``SENT``, because its bytes would be left out.
    """
    sources = Sources(module.head)
    names = names_of_parameters(module, arguments)
    partitions = re.search(r"num_partitions=(\d+)", module.head)
    devices = int(partitions[1]) if partitions else 1
    found = []
    runs = _collectives_in(module)
    marked = any(_INSERTED in run.instruction.text for run in runs)
    for run in runs:
        kind = _kind(run)
        attributes = re.sub(r'"[^"]*"', "", run.instruction.text)
        pairs = PAIRS.search(attributes)
        groups = groups_of(attributes, devices)
        if pairs:
            group = 2 if any(one != other for one, other in groups) else 1
        else:
            group = max(map(len, groups))
        if group == 1:
            continue
        op_name = run.origin.op_name
        arrays, paths = _arrays_put_in(run, kind, module, names)
        frames = sources.frames(run.origin.text)
        size = sum(map(bytes_in, arrays))
        axes, subgroup, aliases = axes_along(groups, meshes, bool(pairs))
        along = _DIMENSION.search(attributes)
        cut = kind in ("all-gather", "reduce-scatter")
        found.append(
            Collective(
                kind=kind,
                axes=axes,
                subgroup=subgroup,
                aliases=aliases,
                group=group,
                groups=tuple(
                    tuple(ids[place] if ids else place for place in places)
                    for places in groups
                ),
                reduction=_reduction(run.instruction, module),
                dimension=int(along[1]) if along and cut else None,
                arrays=arrays,
                arguments=paths,
                bytes=size,
                sent=SENT[kind](size, group),
                times=run.times,
                counted=run.counted,
                bounded=run.bounded,
                passed_on=bool(pairs)
                and is_passed_on(run, module, _joining(groups, devices)),
                direction=direction_of(op_name),
                frames=tuple(each.line for each in frames),
                function=frames[0].function if frames else "",
                op_name=op_name,
                asked=marked and _INSERTED not in run.instruction.text,
                avoidable=avoidable(run, module, group),
            )
        )
    return tuple(found)


def _joining(pairs: Groups, devices: int) -> Callable[[Instruction], bool]:
    """Find the collectives that join devices of a pair."""

    @cache
    def joins(text: str) -> bool:
        attributes = re.sub(r'"[^"]*"', "", text)
        groups = [{*group} for group in groups_of(attributes, devices)]
        return any(
            one != other and {one, other} <= group
            for one, other in pairs
            for group in groups
        )

    return lambda each: _is_collective(each) and joins(each.text)


def _is_collective(each: Instruction) -> bool:
    """Tell whether an instruction is a collective, or begins one."""
    if _OPCODE.fullmatch(each.opcode):
        return True
    if _GROUPS in each.text:
        raise NotImplementedError(
            f"the program has a collective {each.opcode!r}, and shardscope "
            "doesn't know how many bytes a device sends in it. Known: "
            f"{', '.join(KINDS)}"
        )
    return False


def _collectives_in(module: Module) -> list[Run]:
    """Find the collectives that a call runs."""
    found: list[Run] = []
    chains: set[str] = set()
    for run in runs_of(module, _is_collective):
        chain = _CHAIN.search(run.instruction.text)
        if not chain or chain[1] not in chains:
            found.append(run)
        if chain:
            chains.add(chain[1])
    return found


def _kind(run: Run) -> str:
    """Name a collective by what its devices do."""
    # The TPU's compiler fuses the two steps of this one.
    if run.within.startswith("all-reduce-scatter"):
        return "reduce-scatter"
    return run.instruction.opcode.removesuffix("-start")


def _arrays_put_in(
    run: Run, kind: str, module: Module, names: Mapping[int, str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Give the arrays that a device puts in, and the arguments they are."""
    operands = run.instruction.operands
    if kind in ("collective-permute", RAGGED):
        # Others say where the result goes, and how much of it.
        operands = operands[:1]
    computation = module.computations[run.within]
    arrays, paths = list[str](), list[str]()
    for name in operands:
        if name not in computation:
            continue
        put_in = arrays_in(computation[name].type)
        number = parameter_of(run, name, module)
        path = "" if number is None else names.get(number, "")
        arrays += put_in
        paths += [path] * len(put_in)
    return tuple(arrays), tuple(paths)


def _reduction(instruction: Instruction, module: Module) -> str:
    """Say by what a collective combines the values of two devices."""
    for name in instruction.called:
        root = root_of(module.computations.get(name, {}))
        if root and root.opcode in _REDUCTIONS:
            return root.opcode
    return ""
