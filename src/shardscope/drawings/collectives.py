"""Draw what moves: what devices hold before, what travels, and after."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeAlias

from shardscope.arrays.shards import ranges
from shardscope.drawings.figure import (
    FAINT,
    Box,
    Figure,
    Line,
    Picture,
    color_of,
    rect,
    scale_box,
    stripes,
    text,
)
from shardscope.drawings.schedules import chains_of, schedule_figure
from shardscope.programs.collective import RAGGED, Collective, in_words

# Of a larger group, the first devices and the last are drawn.
DRAWN = 8

# Which part, by its color, the device at a position of its group holds in
# a place of its array. None if it holds nothing there.
Held: TypeAlias = Callable[[int, int], int | None]

_NOUNS = {
    "add": "sum",
    "maximum": "maximum",
    "minimum": "minimum",
    "multiply": "product",
}


def _all(device: int, place: int) -> int | None:
    return place


def _own(device: int, place: int) -> int | None:
    return place if place == device else None


@dataclass(frozen=True)
class _Stage:
    """What the devices of a group hold at a time.

    Attributes:
        label: What it is, for all devices.
        held: The parts of a device, by color.
        words: What the device at a position holds.
        partial: Whether these are terms of a sum.
    """

    label: str
    held: Held
    words: Callable[[int], str]
    partial: bool = False


@dataclass(frozen=True)
class _Move:
    """A collective in one group.

    Attributes:
        devices: Their ids, in the order of the parts.
        places: How many parts an array is drawn with.
        before: What they hold.
        after: What they hold then.
        sent: The color of what a device sends to another, or None.
    """

    devices: Sequence[int]
    places: int
    before: _Stage
    after: _Stage
    sent: Callable[[int, int], int | None]


def _move(each: Collective) -> _Move | str:
    """Say what moves, or why that is not known."""
    if each.kind == "collective-permute":
        return _permutation(each)
    devices = max(each.groups, key=len)
    count = len(devices)
    if any(len(group) != count for group in each.groups):
        return "groups differ in their numbers of devices"
    noun = _NOUNS.get(each.reduction, "result")
    terms = _Stage(
        f"a partial {noun} on each",
        _all,
        lambda _: f"a partial {noun}, different on each",
        partial=True,
    )
    match each.kind:
        case "all-gather" if each.dimension is not None:
            before = _Stage("one part on each", _own, lambda i: f"part {i}")
            after = _Stage(
                "all parts on each", _all, lambda _: f"parts 0-{count - 1}"
            )
            return _Move(devices, count, before, after, lambda i, j: i)
        case "all-reduce":
            after = _Stage(
                f"the {noun} on each", _all, lambda _: f"the {noun}"
            )
            return _Move(devices, 1, terms, after, lambda i, j: 0)
        case "reduce-scatter" if each.dimension is not None:
            after = _Stage(
                f"one part of the {noun} on each",
                _own,
                lambda i: f"part {i} of the {noun}",
            )
            return _Move(devices, count, terms, after, lambda i, j: j)
        case "all-to-all":
            before = _Stage(
                "a part for each device",
                lambda i, place: i,
                lambda i: f"parts 0-{count - 1} of its own",
            )
            after = _Stage(
                "a part from each device",
                _all,
                lambda i: f"part {i} of each device",
            )
            return _Move(devices, count, before, after, lambda i, j: i)
        case "all-gather" | "reduce-scatter":
            return "the program doesn't tell which part each device holds"
        case kind if kind == RAGGED:
            return "the data says how much each device sends"
    return "this kind is not drawn"


def _permutation(collective: Collective) -> _Move:
    """Follow the pairs from device to device."""
    linked: list[set[int]] = []
    for pair in collective.groups:
        met = [each for each in linked if each & {*pair}]
        linked = [each for each in linked if each not in met]
        linked.append({*pair}.union(*met))
    largest: set[int] = max(linked, key=len)
    devices = sorted(largest)
    at = {device: place for place, device in enumerate(devices)}
    source = {at[to]: at[by] for by, to in collective.groups if to in at}

    def words(i: int) -> str:
        if i not in source:
            return "zeros"
        return f"that of device {devices[source[i]]}"

    return _Move(
        devices,
        1,
        _Stage(
            "an array on each", lambda i, _: i, lambda _: "its own array"
        ),
        _Stage("what arrived", lambda i, _: source.get(i), words),
        lambda i, j: i if source.get(j) == i else None,
    )


# --- Words ---


def _lines(move: _Move, when: str, stage: _Stage) -> list[Line]:
    """Say which devices hold what, those alike in one line."""
    places = _shown(move.places)
    alike: dict[tuple[str, tuple[str, ...]], list[int]] = {}
    for i, device in enumerate(move.devices):
        held = (stage.held(i, place) for place in places)
        colors = tuple(color_of(part) for part in held if part is not None)
        alike.setdefault((stage.words(i), colors), []).append(device)
    lines = [
        Line(
            f"  {_devices(ids)}: {words}",
            colors,
            stage.partial,
        )
        for (words, colors), ids in alike.items()
    ]
    rest = len(lines) - DRAWN
    if rest > 0:
        lines[DRAWN - 1 : -1] = [Line(f"  and so on for {rest} more")]
    return [Line(f"{when}: {stage.label}"), *lines]


def _shapes(each: Collective) -> str:
    """Name the array that a device puts in, and what it gets for it."""
    first, *rest = each.arrays
    words = first
    if each.dimension is not None:
        kind, _, sizes = first.rstrip("]").partition("[")
        shape = [int(size) for size in sizes.split(",")]
        size = shape[each.dimension]
        gather = each.kind == "all-gather"
        size = size * each.group if gather else size // each.group
        shape[each.dimension] = size
        words += f" to {kind}[{','.join(map(str, shape))}]"
    if rest and each.kind != "all-to-all":
        words += f" and {len(rest)} more array{'s' * (len(rest) > 1)}"
    return words


def _note(each: Collective, move: _Move) -> str:
    """Say what the picture leaves out."""
    permutes = each.kind == "collective-permute"
    words = [f"each device sends {each.sent:,} bytes"]
    if not permutes:
        words[0] += ", counted as a ring"
    if len(move.devices) > DRAWN:
        words.append(f"{DRAWN} of {len(move.devices)} devices are drawn")
    rest = sorted({*chain(*each.groups)} - {*move.devices})
    if rest and permutes:
        words.append(f"not drawn: {_devices(rest)}")
    elif rest:
        others = len(each.groups) - 1
        words.append(f"the same in {others} more group{'s' * (others > 1)}")
    return "; ".join(words)


def _devices(ids: Sequence[int]) -> str:
    return f"device{'s' * (len(ids) > 1)} {ranges(ids)}"


# --- Pictures ---


def _shown(count: int) -> list[int]:
    """Choose the positions that are drawn: of many, the first and last."""
    if count <= DRAWN:
        return [*range(count)]
    return [*range(DRAWN - 1), count - 1]


def _cells(across: bool, places: int) -> list[Box]:
    """Cut a device's square into the places of its array."""
    share = 1 / places
    return [
        (i * share, 0, share, 1) if across else (0, i * share, 1, share)
        for i in range(places)
    ]


def _picture(move: _Move, across: bool) -> Picture:
    """The devices of a group before and after, and what travels."""
    shown, places = _shown(len(move.devices)), _shown(move.places)
    side, gap = (60, 24) if len(shown) <= 4 else (33, 4)
    between, top = 64, 22
    boxes = _cells(across, len(places))
    left = [2 + column * (side + gap) for column in range(len(shown))]
    if len(shown) < len(move.devices):
        left[-1] += 16
    low = top + side + between
    parts = []
    lines = [
        (a, b, part)
        for b, j in enumerate(shown)
        for a, i in enumerate(shown)
        if i != j and (part := move.sent(i, j)) is not None
    ]
    # Of so many, only those to one device can be followed.
    tangled = len(lines) > 2 * DRAWN
    for a, b, part in reversed(lines):
        x, y, to_x = left[a] + side / 2, top + side, left[b] + side / 2
        middle = (y + low) / 2
        opacity = 0.12 if tangled and b else 1
        parts.append(
            f'<path d="M{x:.0f} {y:.0f}C{x:.0f} {middle:.0f} {to_x:.0f} '
            f'{middle:.0f} {to_x:.0f} {low:.0f}" fill="none" '
            f'stroke="{color_of(part)}" stroke-width="1.5" '
            f'stroke-opacity="{opacity}"/>'
        )
    for y, stage in ((top, move.before), (low, move.after)):
        for x, i in zip(left, shown, strict=True):
            for box, place in zip(boxes, places, strict=True):
                part = stage.held(i, place)
                if part is None:
                    continue
                cell = scale_box(box, x, y, side)
                parts.append(rect(cell, color_of(part), FAINT))
                if stage.partial:
                    parts.append(stripes(cell))
            parts.append(rect((x, y, side, side)))
    foot = low + side + 14
    for x, i in zip(left, shown, strict=True):
        parts.append(text(x + side / 2, foot, str(move.devices[i])))
    if len(shown) < len(move.devices):
        parts.append(text(left[-1] - (gap + 16) / 2, foot, "…"))
    full = f"; in full, what device {move.devices[0]} receives" * tangled
    labels = (
        f"before: {move.before.label}{full}",
        f"after: {move.after.label}",
    )
    for y, label in zip((12, foot + 20), labels, strict=True):
        parts.append(text(2, y, label, text_anchor="start"))
    width = max(left[-1] + side + 2, 7.5 * max(map(len, labels)))
    return Picture(width, foot + 26, parts)


def collective_figure(each: Collective) -> Figure:
    """Show what a collective moves between the devices of a group."""
    title = f"{in_words(each, each.times)}: {_shapes(each)}"
    no_schedule = ""
    if each.kind == "collective-permute" and (
        each.times > 1 or not each.bounded
    ):
        chains = chains_of(each)
        if not isinstance(chains, str):
            return schedule_figure(each, title, chains)
        no_schedule = f"; no turn by turn, because {chains}"
    move = _move(each)
    if isinstance(move, str):
        words = f"not drawn: {move}"
        return Figure(title, [Line(words)], f"; {words}", ())
    note = _note(each, move) + no_schedule
    first = each.arrays[0]
    last_dimension = first.count(",")
    across = last_dimension > 0 and each.dimension == last_dimension
    lines = [
        *_lines(move, "before", move.before),
        *_lines(move, "after", move.after),
        Line(note),
    ]
    return Figure(title, lines, f": {note}", (_picture(move, across),))
