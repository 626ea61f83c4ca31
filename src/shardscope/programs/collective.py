"""A collective: what it moves, what a device sends, and its words."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from shardscope.arrays.paths import roll_up, write_repeated
from shardscope.hlo import bytes_in
from shardscope.lines import name_of

# Its sizes are data: what is sent is known only when it runs.
RAGGED = "ragged-all-to-all"
# Characters of a collective on one line.
_LONGEST = 120


def _once(size: int, _group: int) -> int:
    return size


def _all_but_own(size: int, group: int) -> int:
    return -(-size * (group - 1) // group)


# Each kind with the bytes that a device sends, given those that it puts in
# and how many devices a group has, if these pass the data around in a ring.
SENT: Mapping[str, Callable[[int, int], int]] = {
    "all-gather": lambda size, group: size * (group - 1),
    "all-reduce": lambda size, group: _all_but_own(2 * size, group),
    "all-to-all": _all_but_own,
    "collective-broadcast": _once,
    "collective-permute": _once,
    RAGGED: _once,
    "reduce-scatter": _all_but_own,
}
KINDS = tuple(SENT)


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
        subgroup: Whether a group has only some of the devices along
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
            ``argument_bytes`` of :class:`Program`: ``"params.w"``. Empty
            if it is computed, as activations and gradients are, or if the
            program does not tell.
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
        passed_on: Whether it is a collective-permute in a loop, in which a
            device sends what it computed from what it received in the turn
            before, and chooses by its own number, as the first device of a
            pipeline does to take in something new. Other loops may do so
            too, so ``True`` doesn't say that it is a pipeline. False if it
            is in several loops, if another collective between the same
            devices comes between, as where a turn of an unrolled loop
            sends twice, or if the program does not tell.
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
        asked: Whether the code asks for it, as in a :func:`jax.shard_map`,
            and the compiler didn't insert it or combine it with one that it
            inserted. False if that is unknown: if no collective of the
            program is marked as inserted, as before jax 0.12.
        avoidable: Bytes that a device would not send in a call if this
            all-reduce stood after its loop, because the loop only adds up
            the results. 0 if it does not, or for another kind.
    """

    kind: str
    axes: tuple[str, ...]
    subgroup: bool
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
    passed_on: bool
    direction: str
    frames: tuple[str, ...]
    function: str
    op_name: str
    asked: bool = False
    avoidable: int = 0

    @property
    def line(self) -> str:
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
        line = self.line and name_of(self.line)
        size = f"{self.bytes:,} bytes"
        what = in_words(self, self.times, arguments_in_words([self]))
        words = (what, size, line, self.op_name)
        text = ", ".join(filter(None, words))
        if len(text) > _LONGEST - 2:
            text = f"{text[: _LONGEST - 5]}..."
        return f"<{text}>"


def over(each: Collective) -> str:
    """Name the mesh axes that a collective is over."""
    axes = ", or ".join(map(" and ".join, (each.axes, *each.aliases)))
    if each.subgroup:
        axes = f"part of {axes}"
    return axes or f"{each.group} devices"


def is_over(each: Collective, names: Iterable[str]) -> bool:
    """Tell whether a collective is over these axes, by any mesh."""
    return any(
        set(axes) == set(names) for axes in (each.axes, *each.aliases)
    )


def in_words(each: Collective, times: int, of: str = "") -> str:
    """Say how often collectives like this run, of what, and over what."""
    unsure = "" if each.exact else "at most "
    if not each.bounded:
        unsure = f"in each turn {unsure}"
    return f"{unsure}{times} {over_axes(each, of)}"


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
    names = [write_repeated(path, len(alike)) for path, alike in groups]
    others = computed
    if len(names) + bool(computed) > 2 and not every:
        others += sum(len(alike) for _, alike in groups[1:])
        names = names[:1]
    if others:
        names.append(f"{others} other{'s' * (others > 1)}")
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
