"""Read what a compiled program communicates, from its text in HLO."""

import math
import re
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np

# Groups of devices, by their positions in the order of the mesh.
Groups = Sequence[Sequence[int]]

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
_RAGGED = "ragged-all-to-all"
# Code that readers did not write.
LIBRARIES = ("flax", "jax", "jaxlib", "optax")
# Characters of a collective on one line.
_LONGEST = 120


@dataclass(frozen=True, repr=False)
class Collective:
    """A collective in a compiled program.

    Attributes:
        kind: Its name in HLO, such as ``"all-reduce"``.
        axes: The mesh axes in which the devices of a group differ, in
            their order in the mesh. In a program with several meshes, they
            are those of a mesh in which the group is all devices along its
            axes, or else a part of as few as possible. Among equals, the
            first argument's mesh wins. Empty if no mesh is known.
        part: Whether a group has only some of the devices along
            ``axes``: half of those along ``"model"``, for example.
        aliases: What the same devices are in the program's other meshes,
            such as ``(("z",),)``. Empty if there is one mesh.
        group: How many devices take part in each group.
        arrays: The arrays that a device puts in, such as
            ``("f32[64,256]",)``. A combined collective has several.
        bytes: Bytes of these arrays.
        sent: Bytes that a device sends, if devices pass the data around in
            a ring, each time that the collective runs. For
            ``"ragged-all-to-all"``, where the data says how much, those of
            the whole array: the most, if no element goes to two devices.
        times: How often it runs in a call.
        counted: Whether the program says how often. If not, it is in a
            loop whose end depends on data, and ``times`` is for one turn,
            or in a branch that may not be taken, and ``times`` is for a
            call that takes this branch.
        bounded: Whether it runs at most ``times`` times: not in a loop
            whose end depends on data.
        direction: ``"forward"``, ``"backward"`` or ``"rematerialized"``,
            or several of them for a combined collective. Empty if the
            program does not tell.
        source: File and line of the code that caused it, outside of jax,
            flax, optax and Python itself, such as ``"train.py:31"`` with
            its folder. Empty if the program does not tell.
        op_name: The path of transformations and primitives that it comes
            from, as the compiler notes it.
    """

    kind: str
    axes: tuple[str, ...]
    part: bool
    aliases: tuple[tuple[str, ...], ...]
    group: int
    arrays: tuple[str, ...]
    bytes: int
    sent: int
    times: int
    counted: bool
    bounded: bool
    direction: str
    source: str
    op_name: str

    @property
    def exact(self) -> bool:
        """Whether a call sends ``sent`` times ``times`` bytes.

        If not, these are the most that it sends, or what it sends in one
        turn of a loop, as ``bounded`` tells.
        """
        return self.counted and self.kind != _RAGGED

    def __repr__(self) -> str:
        place = Path(self.source).name
        size = f"{self.bytes:,} bytes"
        words = (in_words(self, self.times), size, place, self.op_name)
        text = ", ".join(filter(None, words))
        if len(text) > _LONGEST - 2:
            text = f"{text[: _LONGEST - 5]}..."
        return f"<{text}>"


@dataclass(frozen=True)
class _Found:
    """An instruction, and how often a call runs it."""

    kind: str
    line: str
    origin: str  # the line with its metadata: its own, or its caller's
    types: Mapping[str, str]
    times: int
    counted: bool
    bounded: bool


def in_words(each: Collective, times: int) -> str:
    """Say how often collectives like this run, and over what."""
    over = ", or ".join(map(" and ".join, (each.axes, *each.aliases)))
    if each.part:
        over = f"part of {over}"
    count = f"{times}" if each.bounded else f"{times}?"
    if each.bounded and not each.exact:
        count = f"at most {count}"
    return f"{count} {each.kind} over {over or f'{each.group} devices'}"


def communication(
    text: str, *meshes: Mapping[str, int]
) -> tuple[Collective, ...]:
    """Give the collectives of a compiled program, in its order.

    Those whose groups are single devices are left out.

    Args:
        text: The optimized program, in HLO.
        *meshes: The meshes of the program, each with the sizes of its
            axes by their names, in order.
    """
    sources = _Sources(text)
    partitions = re.search(r"num_partitions=(\d+)", text[:10_000])
    devices = int(partitions[1]) if partitions else 1
    found = []
    for each in _instructions(text):
        attributes = re.sub(r'"[^"]*"', "", each.line)
        pairs = _PAIRS.search(attributes)
        groups: Groups
        if pairs:
            groups = _listed(pairs[1])
            group = 2 if any(one != other for one, other in groups) else 1
        else:
            groups = _groups(attributes, devices)
            group = max(map(len, groups))
        if group == 1:
            continue
        named = _OP_NAME.search(each.origin)
        op_name = named[1] if named else ""
        arrays = _operands(each)
        size = sum(map(_bytes, arrays))
        axes, part, aliases = _axes(groups, meshes, bool(pairs))
        found.append(
            Collective(
                kind=each.kind,
                axes=axes,
                part=part,
                aliases=aliases,
                group=group,
                arrays=arrays,
                bytes=size,
                sent=_sent(each.kind, size, group),
                times=each.times,
                counted=each.counted,
                bounded=each.bounded,
                direction=_direction(op_name),
                source=sources.of(each.origin),
                op_name=op_name,
            )
        )
    return tuple(found)


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


# --- Instructions ---

_OPCODE = re.compile(r" ([a-z][a-z0-9-]*)\(")
_COLLECTIVE = re.compile(rf"({'|'.join(KINDS)})(?:-start)?")
_CALLED = re.compile(
    r"\b(?:calls|to_apply|body|condition|branch_computations"
    r"|true_computation|false_computation|called_computations)="
    r"(\{[^}]*\}|%[\w.-]+)"
)
_OP_NAME = re.compile(r'op_name="([^"]*)"')
# The TPU's compiler may spread one over several fusions, with what else is
# computed meanwhile.
_CHAIN = re.compile(r"channel_id=(\d+),.* frontend_attributes=\{chain_id=")
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')
_NAME = re.compile(r"%([\w.-]+)")
_PAIRS = re.compile(r"source_target_pairs=\{((?:\{[\d,]*\},?)*)\}")
_ARRAY = re.compile(r"\b([a-z]\w*)\[([\d,]*)\]")


def _instructions(text: str) -> list[_Found]:
    """Find the collectives that a call runs, through all that it calls."""
    computations: dict[str, list[str]] = {}
    entry, lines = "", []
    for line in text.splitlines():
        if line.startswith("  "):
            lines.append(line)
        elif line.endswith("{") and (name := _NAME.search(line)):
            lines = computations[name[1]] = []
            if line.startswith("ENTRY"):
                entry = name[1]

    @cache
    def within(name: str) -> list[_Found]:
        found: list[_Found] = []
        chains: set[str] = set()
        types: dict[str, str] = {}
        for line in computations.get(name, ()):
            left, _, right = line.partition(" = ")
            opcode = _OPCODE.search(right)
            if not opcode:
                continue
            types[left.split("%")[-1]] = right[: opcode.start()]
            kind = _COLLECTIVE.fullmatch(opcode[1])
            if kind:
                # The TPU's compiler fuses the two steps of this one.
                fused = name.startswith("all-reduce-scatter")
                word = "reduce-scatter" if fused else kind[1]
                found.append(
                    _Found(word, right, right, types, 1, True, True)
                )
            elif "=%" in right or "={%" in right:
                for each in called(opcode[1], right, name):
                    chain = _CHAIN.search(each.line)
                    if not chain or chain[1] not in chains:
                        found.append(each)
                    if chain:
                        chains.add(chain[1])
        return found

    def called(opcode: str, line: str, caller: str) -> Iterator[_Found]:
        trips = None
        if opcode == "while":
            trips = _trips(line, computations[caller], computations)
        times = 1 if trips is None else trips
        bounded = trips is not None or opcode != "while"
        # Of a conditional only one branch runs.
        counted = bounded and opcode != "conditional"
        for names in _CALLED.findall(line):
            for name in _NAME.findall(names):
                for each in within(name):
                    yield _Found(
                        each.kind,
                        each.line,
                        each.origin
                        if _OP_NAME.search(each.origin)
                        else line,
                        each.types,
                        each.times * times,
                        each.counted and counted,
                        each.bounded and bounded,
                    )

    return within(entry)


def _trips(
    loop: str, caller: list[str], computations: Mapping[str, list[str]]
) -> int | None:
    """Say how often a loop turns, or None if the program does not.

    XLA notes it for CPUs and GPUs. In a program for TPUs it has to be read:
    a counter starts at a constant, a constant is added in each turn, and
    it ends at another.
    """
    if noted := _TRIPS.search(loop):
        return int(noted[1])
    states = _parts(loop)
    names = dict(re.findall(r"\b(condition|body)=%([\w.-]+)", loop))
    if not states or len(names) < 2:
        return None
    condition = computations[names["condition"]]
    body = computations[names["body"]]
    less = re.search(
        r"compare\(%([\w.-]+), %([\w.-]+)\), direction=LT",
        _value(condition, "ROOT"),
    )
    if not less:
        return None
    counter = re.search(r"index=(\d+)", _value(condition, less[1]))
    limit = _number(_value(condition, less[2]))
    if not counter or limit is None:
        return None
    at = int(counter[1])
    first = _parts(_value(caller, states[0]))[at:][:1]
    last = _parts(_value(body, "ROOT"))[at:][:1]
    if not first or not last:
        return None
    added = _value(body, last[0])
    terms = [_value(body, term) for term in _parts(added)]
    if " add(" not in added or f"index={at}," not in f"{terms[0]},":
        return None
    begin, step = _number(_value(caller, first[0])), _number(terms[1])
    if begin is None or not step:
        return None
    return max(0, -((begin - limit) // step))


def _value(lines: list[str], name: str) -> str:
    """Give what an instruction computes; what it copies, if it does."""
    start = f"%{name} = "
    for line in lines:
        text = line.strip()
        if name == "ROOT" and text.startswith("ROOT "):
            return text
        if text.removeprefix("ROOT ").startswith(start):
            copied = re.search(r" copy\(%([\w.-]+)\)", text)
            return _value(lines, copied[1]) if copied else text
    return ""


def _parts(text: str) -> list[str]:
    """Name the operands of an instruction."""
    opcode = _OPCODE.search(text)
    if not opcode:
        return []
    return _NAME.findall(text[opcode.end() :].partition(")")[0])


def _number(text: str) -> int | None:
    """Read a constant."""
    found = re.search(r" constant\((\d+)\)", text)
    return int(found[1]) if found else None


def _operands(found: _Found) -> tuple[str, ...]:
    """Give the arrays that a device puts into a collective."""
    names = _parts(found.line)
    if found.kind in ("collective-permute", _RAGGED):
        # Others say where the result goes, and how much of it.
        names = names[:1]
    return tuple(
        f"{kind}[{sizes}]"
        for name in names
        for kind, sizes in _ARRAY.findall(found.types.get(name, ""))
    )


def _bytes(array: str) -> int:
    """Count the bytes of an array such as ``"f32[8,4]"``."""
    kind, _, sizes = array.rstrip("]").partition("[")
    bits = 8 if kind == "pred" else int(re.findall(r"\d+", kind)[0])
    count = math.prod(map(int, filter(None, sizes.split(","))))
    return -(-count * bits // 8)


# --- Devices ---


def _listed(text: str) -> list[list[int]]:
    """Read groups such as ``{0,1},{2,3}``."""
    return [
        [int(number) for number in re.findall(r"\d+", group)]
        for group in re.findall(r"\{([^{}]*)\}", text)
    ]


def _groups(attributes: str, devices: int) -> Groups:
    """Read the groups of a collective in each way that XLA writes them."""
    if found := re.search(r"replica_groups=\{(\{.*?\})\}", attributes):
        return _listed(found[1])
    if found := re.search(
        r"replica_groups=\[(\d+),(\d+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?",
        attributes,
    ):
        count, size, dims, order = found.groups()
        return _ids(dims, order).reshape(int(count), int(size)).tolist()
    if found := re.search(
        r"replica_groups=mesh\[([^\]]*)\]"
        r"(?:, device_ids=\(\[([\d,]+)\](?:T\(([\d,]+)\))?\))?"
        r" \{([^}]*)\}",
        attributes,
    ):
        mesh, dims, order, over = found.groups()
        groups = _along(mesh, over)
        if dims:
            groups = _ids(dims, order).ravel()[np.array(groups)].tolist()
        return groups
    return [list(range(devices))]


def _ids(dims: str, order: str | None) -> np.ndarray:
    """Number the devices as in ``[2,4]T(1,0)``."""
    shape = tuple(map(int, dims.split(",")))
    ids = np.arange(math.prod(shape)).reshape(shape)
    return (
        ids.transpose(tuple(map(int, order.split(",")))) if order else ids
    )


def _along(mesh: str, over: str) -> list[list[int]]:
    """Read groups such as ``mesh['a'=2,'b'=4] {'b':(2)2}``.

    The names are the compiler's own. ``'b':(2)2`` is the part of the axis
    that has size 2, below a part of size 2.
    """
    sizes = {
        name: int(size)
        for name, size in re.findall(r"'([^']*)'=(\d+)", mesh)
    }
    parts = {
        name: (int(before or 1), int(size or sizes[name]))
        for name, before, size in re.findall(
            r"'([^']*)'(?::\((\d+)\)(\d+))?", over
        )
    }
    shape: list[int] = []
    inside: list[int] = []
    for name, size in sizes.items():
        before, part = parts.get(name, (size, 1))
        inside.append(len(shape) + 1)
        shape += [before, part, size // before // part]
    ids = np.arange(math.prod(shape)).reshape(shape)
    outside = [axis for axis in range(len(shape)) if axis not in inside]
    count = math.prod(part for _, part in parts.values())
    return ids.transpose(outside + inside).reshape(-1, count).tolist()


def _axes(
    groups: Groups, meshes: Sequence[Mapping[str, int]], pairs: bool
) -> tuple[tuple[str, ...], bool, tuple[tuple[str, ...], ...]]:
    """Name the mesh axes along which the devices of a group differ.

    Also tell whether a group is only a part of the devices along them, and
    what they are in other meshes. The names that jax 0.12 writes into a
    program's text don't help: they are those of one mesh, whichever a
    collective is over.
    """
    found = []
    for mesh in meshes:
        sizes = tuple(mesh.values())
        if math.prod(sizes) <= max(map(max, groups)):
            continue
        over: set[int] = set()
        for group in groups:
            places = np.array(np.unravel_index(group, sizes))
            over.update(np.flatnonzero(np.ptp(places, axis=1)).tolist())
        names = tuple(name for at, name in enumerate(mesh) if at in over)
        whole = math.prod(mesh[name] for name in names)
        part = not pairs and any(len(group) != whole for group in groups)
        found.append((part, whole, names))
    if not found:
        return (), False, ()
    part, whole, _ = min(found, key=lambda each: each[:2])
    first, *others = dict.fromkeys(
        names for *key, names in found if key == [part, whole]
    )
    return first, part, tuple(others)


# --- Where it comes from ---


def _direction(op_name: str) -> str:
    """Tell forward from backward by the path of transformations."""
    words = []
    # A combined instruction has the paths of its parts. What the compiler
    # adds to lay out an argument has the argument's name.
    for part in op_name.split(":") if "/" in op_name else ():
        if "rematted_computation" in part:
            words.append("rematerialized")
        else:
            words.append("backward" if "transpose(" in part else "forward")
    return ", ".join(dict.fromkeys(words))


@cache
def _is_library(file: str) -> bool:
    """Tell whether a file is of a library, or of Python itself."""
    path, here = Path(file), Path(__file__)
    # What program() wraps around a function is not the reader's either.
    if path == here.with_name("_program.py"):
        return True
    folders = [
        Path(spec.origin).parent
        for name in LIBRARIES
        if (spec := find_spec(name)) and spec.origin
    ]
    if any(folder in path.parents for folder in folders):
        return True
    python = Path(sysconfig.get_path("stdlib"))
    return python in path.parents and "site-packages" not in path.parts


class _Sources:
    """The tables of files and lines in a program's text."""

    def __init__(self, text: str) -> None:
        head = text.partition("\n\n\n")[0]
        # Another table has quoted names too, those of functions.
        names = head.partition("FileNames\n")[2].partition("\n\n")[0]
        self._files = dict(re.findall(r'^(\d+) "(.*)"$', names, re.M))
        self._places = {
            number: (file, line)
            for number, file, line in re.findall(
                r"^(\d+) \{file_name_id=(\d+) .*?\bline=(\d+)", head, re.M
            )
        }
        self._frames = {
            number: (place, parent)
            for number, place, parent in re.findall(
                r"^(\d+) \{file_location_id=(\d+) parent_frame_id=(\d+)",
                head,
                re.M,
            )
        }

    def of(self, line: str) -> str:
        """Give the innermost line that is of no library."""
        found = re.search(r"stack_frame_id=(\d+)", line)
        frame = found[1] if found else ""
        while frame in self._frames:
            place, parent = self._frames[frame]
            file, number = self._places[place]
            if not _is_library(self._files[file]):
                return f"{self._files[file]}:{number}"
            # They are counted from one, parents from two.
            frame = str(int(parent) - 1)
        return ""
