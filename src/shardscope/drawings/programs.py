"""Draw what compiled programs need as bars, to compare them."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeGuard

from shardscope.drawings.figure import (
    Figure,
    Line,
    Picture,
    color_of,
    rect,
    text,
)
from shardscope.programs.collective import over_axes
from shardscope.programs.memory import lacks_fusions
from shardscope.programs.report import Program

# Two charts stand beside each other on a page, and one fits on a phone.
_WIDTH = 312
_HIGH = 14
_LETTER = 7.5
_MEMORY = ("arguments", "results", "temporaries", "constants")


@dataclass(frozen=True)
class _Bar:
    """What one program needs.

    Attributes:
        name: Of the program.
        parts: Bytes, by what they are.
        limit: The bytes that there are, if that is known.
        owner: What has them.
    """

    name: str
    parts: Mapping[str, int]
    limit: int | None = None
    owner: str = ""

    @property
    def total(self) -> int:
        """The length of the bar, in bytes."""
        return sum(self.parts.values())


@dataclass(frozen=True)
class _Chart:
    """Bars of one scale.

    Attributes:
        title: What they measure.
        bars: One for each program.
        colors: What the color of a part is.
    """

    title: str
    bars: Sequence[_Bar]
    colors: Mapping[str, str]

    @property
    def scale(self) -> int:
        """The length of the longest bar."""
        return max(bar.total for bar in self.bars)

    @property
    def limited(self) -> bool:
        """Whether the limit of a bar is on the paper."""
        return any(self._shows(bar.limit) for bar in self.bars)

    def _shows(self, limit: int | None) -> TypeGuard[int]:
        return limit is not None and limit <= self.scale

    def lines(self) -> Iterator[Line]:
        """Say how long each bar is, and what it consists of."""
        yield Line(self.title)
        width = max(len(bar.name) for bar in self.bars)
        room = len(f"{self.scale:,}")
        for bar in self.bars:
            line = f"  {bar.name:{width}}  {bar.total:{room},}"
            if bar.parts:
                parts = (f"{n:,} {name}" for name, n in bar.parts.items())
                line += f": {', '.join(parts)}"
            if bar.limit is not None and bar.total > bar.limit:
                line += f"; more than the {bar.limit:,} of {bar.owner}"
            yield Line(line)

    def picture(self) -> Picture:
        """The bars, each below its name, and what their colors mean."""
        left, right = 2.0, _WIDTH - 2.0
        parts = [_words(left, 12, self.title, font_weight="bold")]
        y = 34
        for bar in self.bars:
            number = f"{bar.total:,}"
            room = int(right / _LETTER) - len(number) - 2
            name = bar.name
            if len(name) > room:
                name = _without_middle(name, room)
            parts.append(_words(left, y, name))
            parts.append(_words(right, y, number, text_anchor="end"))
            parts += self._drawn(bar, y + 6)
            y += _HIGH + 28
        x = left
        for name, color in self.colors.items():
            if not any(name in bar.parts for bar in self.bars):
                continue
            width = 26 + _LETTER * len(name)
            if x > left and x + width > right:
                x, y = left, y + 18
            parts.append(rect((x, y - 9, 10, 10), color))
            parts.append(_words(x + 15, y, name))
            x += width
        return Picture(_WIDTH, y + 8, parts, at_top=True)

    def _drawn(self, bar: _Bar, y: int) -> Iterator[str]:
        """A bar, and its limit if that is on the paper."""
        scale = (_WIDTH - 4) / self.scale
        x = 2.0
        for name, count in bar.parts.items():
            yield rect((x, y, count * scale, _HIGH), self.colors[name])
            x += count * scale
        if self._shows(bar.limit):
            x = 2 + bar.limit * scale
            yield (
                f'<path d="M{x:.1f} {y - 4}v{_HIGH + 8}" '
                'stroke="currentColor" stroke-width="3"/>'
            )


def _words(x: float, y: float, words: str, **attributes: str) -> str:
    return text(x, y, words, **{"text_anchor": "start", **attributes})


def _memory(name: str, program: Program) -> _Bar:
    memory = program.memory
    kept = memory.results - memory.donated
    counts = (
        memory.arguments,
        kept,
        memory.temporaries,
        memory.constants,
    )
    parts = zip(_MEMORY, counts, strict=True)
    return _Bar(
        name,
        {part: count for part, count in parts if count},
        program.available,
        program.chip,
    )


def _sent(name: str, program: Program) -> _Bar:
    parts: Counter[str] = Counter()
    for each in program.communication:
        unsure = "" if each.exact else "?"
        parts[f"{over_axes(each)}{unsure}"] += each.sent * each.times
    return _Bar(name, parts)


def programs_figure(programs: Mapping[str, Program]) -> Figure:
    """Compare the memory of programs, and the bytes that they send.

    Args:
        programs: At least one, by the name that its bar has.
    """
    named = [(str(name), each) for name, each in programs.items()]
    bars = [_sent(*each) for each in named]
    kinds = dict.fromkeys(
        [*_MEMORY, *(k for bar in bars for k in bar.parts)]
    )
    colors = {kind: color_of(place) for place, kind in enumerate(kinds)}
    memory = _Chart(
        "bytes of memory", [_memory(*each) for each in named], colors
    )
    sent = _Chart("bytes sent", bars, colors)
    charts = [chart for chart in (memory, sent) if chart.scale]
    notes = []
    if not sent.scale:
        notes.append("nothing is sent")
    if memory.limited:
        notes.append("the line is the memory of the chip")
    if any(lacks_fusions(each.text) for _, each in named):
        notes.append("memory inside fusions is not counted")
    if any(kind.endswith("?") for kind in colors):
        notes.append("? depends on data")
    return Figure(
        title="one call on one device",
        lines=[
            *(line for chart in charts for line in chart.lines()),
            *map(Line, notes),
        ],
        caption="".join(f"; {note}" for note in notes),
        pictures=[chart.picture() for chart in charts],
    )


def _without_middle(name: str, length: int) -> str:
    """Cut a name to a number of letters."""
    half = (length - 3) // 2
    return f"{name[: length - 3 - half]}...{name[-half:]}"
