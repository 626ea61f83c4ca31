"""Draw what a chain of devices passes on, turn by turn."""

from collections.abc import Sequence

from shardscope.drawings.figure import (
    DARK,
    FAINT,
    Figure,
    Line,
    Picture,
    color_of,
    rect,
    text,
)
from shardscope.programs.collective import Collective

# It fits on a phone. Of what is longer, the middle is left out.
_WIDTH = 312
_TURNS = 24
_DEVICES = 16
_WIDEST = 26
# What stands for a device that waits, and for what is not drawn.
_IDLE, _LEFT_OUT = "-", "…"


def chains_of(each: Collective) -> list[list[int]] | str:
    """Give the devices along which a loop passes arrays on, or why not.

    Args:
        each: A collective-permute that runs several times in a call.

    Returns:
        Chains of devices, each as long as the others, or why the program
        doesn't tell what a device holds in each turn. Whether the loop is
        a pipeline, it doesn't tell for certain: an array may also enter
        at another device, or not in every turn.
    """
    onward = {one: other for one, other in each.groups}
    heads = sorted({*onward} - {*onward.values()})
    chains = []
    for device in heads:
        chain = [device]
        while chain[-1] in onward:
            chain.append(onward[chain[-1]])
        chains.append(chain)
    if sum(map(len, chains)) < len({*onward, *onward.values()}):
        return "devices are in a ring, where anyone may put in a new array"
    if len({*map(len, chains)}) > 1:
        return "the chains of devices differ in length"
    if not each.counted:
        return "the program doesn't say how many turns there are"
    if not each.passed_on:
        return (
            "it is in several loops, it is one of several in a turn, or no "
            "turn is seen to send on what the turn before received"
        )
    if each.times < len(chains[0]):
        return "there are fewer turns than devices"
    return chains


def schedule_figure(
    each: Collective, title: str, chains: Sequence[Sequence[int]]
) -> Figure:
    """Show which devices work on what, in which turn of a loop.

    That is so if an array enters at the head of a chain in every turn, and
    nowhere else.
    """
    chain, *others = chains
    turns, last = each.times, len(chain) - 1
    shown = _without_middle(turns, _TURNS)
    rows = _without_middle(len(chain), _DEVICES)

    def cell(place: int | None, turn: int | None) -> str:
        """Say in which turn that entered which passes all devices."""
        if place is None or turn is None:
            return _LEFT_OUT
        number = turn - place
        return f"{number}" if 0 <= number < turns - last else _IDLE

    table = [[cell(place, turn) for turn in shown] for place in rows]
    devices = [
        _LEFT_OUT if place is None else f"{chain[place]}" for place in rows
    ]
    width, room = len(f"{turns - 1}"), max(map(len, devices))
    head = (_LEFT_OUT if turn is None else f"{turn}" for turn in shown)
    lines = []
    for name, cells in (
        (f"turn   {'':{room}}", head),
        *(
            (f"device {device:>{room}}", cells)
            for device, cells in zip(devices, table, strict=True)
        ),
    ):
        row = " ".join(f"{each:>{width}}" for each in cells)
        lines.append(Line(f"  {name}  {row}"))
    count = turns - last
    passes = f"{count} arrays pass" if count > 1 else "1 array passes"
    note = (
        f"if an array enters at device {chain[0]} in every turn and "
        f"nowhere else, which the program doesn't tell: {passes} from "
        f"device {chain[0]} to {chain[-1]}, each numbered by the turn in "
        f"which it enters; the other {last} of {turns} turns of a device "
        f"are the bubble ({last / turns:.0%}), gray in a picture and "
        f"{_IDLE} in text; each device but the last sends {each.sent:,} "
        "bytes by it in a turn"
    )
    if others:
        plural = "s" * (len(others) > 1)
        note += f"; the same in {len(others)} more chain{plural}"
    picture = _picture(devices, table)
    return Figure(title, [*lines, Line(note)], f": {note}", (picture,))


def _without_middle(count: int, most: int) -> list[int | None]:
    """Choose what is drawn: of many, the first and the last."""
    if count <= most:
        return [*range(count)]
    half = most // 2
    return [*range(half), None, *range(count - half, count)]


def _picture(
    devices: Sequence[str], table: Sequence[Sequence[str]]
) -> Picture:
    """A row for each device, a column for each turn."""
    left, top = 62.0, 22.0
    count = len(table[0])
    side = min(_WIDEST, (_WIDTH - left - 2) / count)
    high = max(side, 16)
    parts = [
        text(2, 14, "device", text_anchor="start"),
        text(left, 14, "turns, from left to right", text_anchor="start"),
    ]
    for row, (device, cells) in enumerate(zip(devices, table, strict=True)):
        y = top + row * high
        middle = y + high / 2 + 4
        parts.append(text(left - 14, middle, device))
        for column, words in enumerate(cells):
            box = (left + column * side, y, side, high)
            if words == _IDLE:
                parts.append(rect(box, "currentColor", "none", 0.15))
            elif words != _LEFT_OUT:
                parts.append(rect(box, color_of(int(words)), FAINT))
                if 7.5 * len(words) <= side:
                    x = box[0] + side / 2
                    parts.append(text(x, middle, words, fill=DARK))
    bottom = top + len(table) * high
    return Picture(_WIDTH, bottom + 4, parts)
