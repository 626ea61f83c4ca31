"""What a compiled program communicates: its collectives."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from shardbook.tools.groups import Groups, axes_along, groups_of, listed
from shardbook.tools.hlo import (
    Instruction,
    Module,
    arrays_in,
    bytes_in,
    root_of,
)
from shardbook.tools.operands import names_of_parameters, parameter_of
from shardbook.tools.paths import repeated, roll_up
from shardbook.tools.places import name_of
from shardbook.tools.runs import Run, runs_of
from shardbook.tools.sources import Sources, direction_of

KINDS = (
    "all-gather",
    "all-reduce",
    "all-to-all",
    "collective-broadcast",
    "collective-permute",
    "ragged-all-to-all",
    "reduce-scatter",
)
# Its sizes are data: what is sent is known only when it runs.
RAGGED = "ragged-all-to-all"
# Characters of a collective on one line.
_LONGEST = 120
_OPCODE = re.compile(rf"({'|'.join(KINDS)})(?:-start)?")
# The TPU's compiler may spread one over several fusions, with what else is
# computed meanwhile.
_CHAIN = re.compile(r"channel_id=(\d+),.* frontend_attributes=\{chain_id=")
_PAIRS = re.compile(r"source_target_pairs=\{((?:\{[\d,]*\},?)*)\}")
_REDUCTIONS = ("add", "maximum", "minimum", "multiply", "and", "or")
_DIMENSION = re.compile(r"\bdimensions=\{(\d+)\}")


@dataclass(frozen=True, repr=False)
class Collective:
    """A collective in a compiled program.

    Attributes:
        kind: Its name in HLO, such as ``"all-reduce"``.
        axes: The mesh axes in which the devices of a group differ, in
            the order of the mesh. If a program has several meshes, this
            is the mesh in which a group is exactly the devices along some
            axes, or else the one in which it is part of the fewest
            devices; if several meshes fit, the first of them in the order
            of ``axes`` of :class:`Program`. Empty if no mesh is known.
        part: Whether a group has only some of the devices along
            ``axes``: half of those along ``"model"``, for example.
        aliases: The axes of the same devices in the program's other
            meshes, such as ``(("z",),)``. Empty if there is one mesh.
        group: How many devices take part in each group.
        groups: The ids of the devices of each group, in the order in which
            the program numbers their parts. Of a collective-permute, the
            pairs of a device and the one that it sends to. Positions in
            the mesh instead of ids if no mesh is known.
        reduction: By what the values of the devices are combined, such as
            ``"add"`` or ``"maximum"``. Empty if they are not, or if the
            program does not tell.
        dimension: The dimension along which an all-gather puts the parts
            together, or a reduce-scatter takes them apart. None for other
            kinds, or if the program does not tell.
        arrays: The arrays that a device puts in, such as
            ``("f32[64,256]",)``. A combined collective has several.
        arguments: For each of ``arrays``, the path of the argument that it
            is a copy or part of, perhaps in another dtype, written as in
            ``arguments`` of :class:`Program`; if these are None, as XLA
            notes it: ``"params['w']"``. Empty if it is computed, as
            activations and gradients are, or if the program does not tell.
        bytes: Bytes of these arrays.
        sent: Bytes that a device sends each time that the collective runs,
            if devices pass the data around in a ring. For
            ``"ragged-all-to-all"``, where the amount depends on the data,
            these are the bytes of the whole array, which is the most if no
            element goes to two devices.
        times: How often it runs in a call.
        counted: Whether the program says how often. If not, it is in a
            loop whose end depends on data, and ``times`` is for one turn,
            or in a branch that may not be taken, and ``times`` is for a
            call that takes this branch.
        bounded: Whether it runs at most ``times`` times: not in a loop
            whose end depends on data.
        direction: The pass of a gradient that it belongs to:
            ``"forward"``, ``"backward"`` or ``"rematerialized"``, or
            several of them for a combined collective. What is outside of a
            gradient, such as an optimizer's update, and what the compiler
            gives no name, has none, and adds none to a combined one.
        frames: The lines of code that caused it, outside of jax, flax,
            optax and Python itself, such as ``"train.py:31"`` with its
            folder. The innermost comes first, then those that called it,
            as many as jax notes. Empty if the program does not tell.
        function: The qualified name of the function that has the
            innermost line, such as ``"loss"`` or ``"Block.__call__"``.
            Empty if the program does not tell.
        op_name: The path of transformations and primitives that it comes
            from, as the compiler notes it.
    """

    kind: str
    axes: tuple[str, ...]
    part: bool
    aliases: tuple[tuple[str, ...], ...]
    group: int
    groups: tuple[tuple[int, ...], ...]
    reduction: str
    dimension: int | None
    arrays: tuple[str, ...]
    arguments: tuple[str, ...]
    bytes: int
    sent: int
    times: int
    counted: bool
    bounded: bool
    direction: str
    frames: tuple[str, ...]
    function: str
    op_name: str

    @property
    def source(self) -> str:
        """The innermost of ``frames``, or nothing."""
        return self.frames[0] if self.frames else ""

    @property
    def exact(self) -> bool:
        """Whether a call sends exactly ``sent`` times ``times`` bytes.

        If not, this is the most that a call sends, or if ``bounded`` is
        False, what it sends in one turn of a loop.
        """
        return self.counted and self.kind != RAGGED

    def __repr__(self) -> str:
        place = self.source and name_of(self.source)
        size = f"{self.bytes:,} bytes"
        what = in_words(self, self.times, arguments_in_words([self]))
        words = (what, size, place, self.op_name)
        text = ", ".join(filter(None, words))
        if len(text) > _LONGEST - 2:
            text = f"{text[: _LONGEST - 5]}..."
        return f"<{text}>"


def over(each: Collective) -> str:
    """Name the mesh axes that a collective is over."""
    axes = ", or ".join(map(" and ".join, (each.axes, *each.aliases)))
    if each.part:
        axes = f"part of {axes}"
    return axes or f"{each.group} devices"


def in_words(each: Collective, times: int, of: str = "") -> str:
    """Say how often collectives like this run, of what, and over what."""
    count = f"{times}" if each.bounded else f"{times}?"
    if each.bounded and not each.exact:
        count = f"at most {count}"
    return f"{count} {over_axes(each, of)}"


def over_axes(each: Collective, of: str = "") -> str:
    """Say of which kind a collective is, of what, and over what it runs.

    It adds up unless the words say otherwise.
    """
    what = each.kind
    if each.reduction not in ("", "add"):
        what += f" ({each.reduction})"
    if of:
        what += f" of {of}"
    return f"{what} over {over(each)}"


def arguments_in_words(
    several: Iterable[Collective], every: bool = False
) -> str:
    """Name the arguments that collectives move, the largest first.

    Those whose paths differ only in numbers are taken together. If no
    argument is known, the result is empty. Many are counted, unless it
    has to be every one.
    """
    sizes: Counter[str] = Counter()
    computed = 0
    for each in several:
        for path, array in zip(each.arguments, each.arrays, strict=True):
            sizes[path] += bytes_in(array)
        computed = max(computed, each.arguments.count(""))
    del sizes[""]
    groups = sorted(
        roll_up(sizes, str, lambda _: None),
        key=lambda group: -sum(sizes[path] for path in group[1]),
    )
    if not groups:
        return ""
    names = [repeated(path, len(alike)) for path, alike in groups]
    others = computed
    if len(names) + bool(computed) > 2 and not every:
        others += sum(len(alike) for _, alike in groups[1:])
        names = names[:1]
    if others:
        names.append(f"{others} other{'s' * (others > 1)}")
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def communication(
    text: str,
    *meshes: Mapping[str, int],
    ids: Sequence[int] = (),
    arguments: Sequence[str] = (),
) -> tuple[Collective, ...]:
    """Give the collectives of a compiled program, in its order.

    Those whose groups are single devices are left out.

    Args:
        text: The optimized program, in HLO.
        *meshes: The meshes of the program, each with the sizes of its
            axes by their names, in order.
        ids: The ids of the program's devices, in its order. Without, their
            positions are taken for ids.
        arguments: The paths of the arguments that the program uses, in its
            order. Without, or where one is empty, it is the name that XLA
            notes, such as ``"params['w']"``.
    """
    module = Module.of(text)
    sources = Sources(module.head)
    names = names_of_parameters(module, arguments)
    partitions = re.search(r"num_partitions=(\d+)", module.head)
    devices = int(partitions[1]) if partitions else 1
    found = []
    for run in _collectives_in(module):
        kind = _kind(run)
        attributes = re.sub(r'"[^"]*"', "", run.instruction.text)
        pairs = _PAIRS.search(attributes)
        groups: Groups
        if pairs:
            groups = listed(pairs[1])
            group = 2 if any(one != other for one, other in groups) else 1
        else:
            groups = groups_of(attributes, devices)
            group = max(map(len, groups))
        if group == 1:
            continue
        op_name = run.origin.op_name
        arrays, paths = _arrays_put_in(run, kind, module, names)
        frames = sources.frames(run.origin.text)
        size = sum(map(bytes_in, arrays))
        axes, part, aliases = axes_along(groups, meshes, bool(pairs))
        along = _DIMENSION.search(attributes)
        cut = kind in ("all-gather", "reduce-scatter")
        found.append(
            Collective(
                kind=kind,
                axes=axes,
                part=part,
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
                sent=_sent(kind, size, group),
                times=run.times,
                counted=run.counted,
                bounded=run.bounded,
                direction=direction_of(op_name),
                frames=tuple(each.place for each in frames),
                function=frames[0].function if frames else "",
                op_name=op_name,
            )
        )
    return tuple(found)


def _collectives_in(module: Module) -> list[Run]:
    """Find the collectives that a call runs."""
    found: list[Run] = []
    chains: set[str] = set()
    for run in runs_of(
        module, lambda each: bool(_OPCODE.fullmatch(each.opcode))
    ):
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


def _sent(kind: str, size: int, group: int) -> int:
    """Count the bytes that a device sends, of what it puts in."""
    match kind:
        case "all-gather":
            return size * (group - 1)
        case "all-reduce":
            return -(-2 * size * (group - 1) // group)
        case (
            "collective-permute"
            | "collective-broadcast"
            | "ragged-all-to-all"
        ):
            return size
        case _:
            return -(-size * (group - 1) // group)
