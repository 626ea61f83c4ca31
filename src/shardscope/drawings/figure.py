"""Figures: pictures, and the words that say the same."""

import colorsys
import html
import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from shardscope.tables import Table, html_of

# Left, top, width and height.
Box = tuple[float, float, float, float]

# What has the same color is the same part of an array.
# Dark text is readable on each of them.
COLORS = (
    "#8ecae6",
    "#ffc85c",
    "#a3d398",
    "#f7a8b8",
    "#bfaeea",
    "#76d7c4",
    "#f6a57b",
    "#d9d671",
)
DARK = "#16181d"
# Between the parts of an array on a device.
FAINT = "#16181d55"


def color_of(number: int) -> str:
    """Give each slice a color of its own, light enough for dark text."""
    if number < len(COLORS):
        return COLORS[number]
    # The golden angle: neighbors are far apart.
    hue = number * 137.508 % 360
    return f"hsl({hue:.0f} {55 + number % 3 * 15}% {82 - number % 4 * 5}%)"


# --- Pictures ---


@dataclass(frozen=True)
class Cell:
    """A part of an array on paper.

    Attributes:
        box: Where it is, in numbers from 0 to 1.
        color: Which part it is.
        partial: Whether it is a term of a sum, not a value yet.
        pale: Whether it is to stand back.
    """

    box: Box
    color: str
    partial: bool = False
    pale: bool = False


def scale_box(box: Box, x: float, y: float, scale: float) -> Box:
    """Give a box in pixels, moved to the right and down."""
    left, top, width, height = (number * scale for number in box)
    return x + left, y + top, width, height


def rect(
    box: Sequence[float],
    fill: str = "none",
    stroke: str = "currentColor",
    opacity: float = 1,
) -> str:
    """Draw a rectangle."""
    left, top, width, height = (f"{number:.1f}" for number in box)
    faint = f' opacity="{opacity}"' if opacity < 1 else ""
    return (
        f'<rect x="{left}" y="{top}" width="{width}" height="{height}" '
        f'fill="{fill}" stroke="{stroke}"{faint}/>'
    )


def stripes(box: Sequence[float]) -> str:
    """Draw stripes across a rectangle: a thick line with gaps."""
    left, top, width, height = box
    start, thick = f"M{left:.1f} {top + height / 2:.1f}h{width:.1f}", height
    if height > width:
        start, thick = (
            f"M{left + width / 2:.1f} {top:.1f}v{height:.1f}",
            width,
        )
    return (
        f'<path d="{start}" stroke="#fff" stroke-opacity="0.7" '
        f'stroke-width="{thick:.1f}" stroke-dasharray="3"/>'
    )


def text(x: float, y: float, words: str, **attributes: Any) -> str:
    """Write text; in the middle of ``x``, unless the anchor is given."""
    attributes = {"text_anchor": "middle", **attributes}
    extra = "".join(
        f' {name.replace("_", "-")}="{value}"'
        for name, value in attributes.items()
    )
    return (
        f'<text x="{x:.1f}" y="{y:.1f}"{extra}>{html.escape(words)}</text>'
    )


@dataclass(frozen=True)
class Picture:
    """An SVG image of some size, without ids: it may stand on any page.

    Attributes:
        width: In pixels.
        height: In pixels.
        parts: What is in it.
        at_top: Whether it begins where a picture beside it begins, and
            not in the middle.
    """

    width: float
    height: float
    parts: Sequence[str]
    at_top: bool = False

    def __str__(self) -> str:
        top = ' style="align-self:start;vertical-align:top"' * self.at_top
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" '
            f'width="{self.width:.0f}" height="{self.height:.0f}" '
            f'viewBox="0 0 {self.width:.0f} {self.height:.0f}" '
            'font-family="ui-monospace, monospace" font-size="12" '
            f'fill="currentColor"{top}>{"".join(self.parts)}</svg>'
        )


# --- Words ---


@dataclass(frozen=True)
class Line:
    """A line of text, with the colors of what it speaks of."""

    text: str
    colors: Sequence[str] = ()
    partial: bool = False

    def colored(self) -> str:
        """Show the colors before the text, for a terminal."""
        block = "▒▒" if self.partial else "██"
        signs = "".join(
            f"{_escape(38, color)}{block}\x1b[0m" for color in self.colors
        )
        return f"  {signs} {self.text.strip()}" if signs else self.text


def _escape(ground: int, color: str) -> str:
    """Choose one of the 256 colors that all terminals with colors have."""
    if color.startswith("#"):
        rgb = [*bytes.fromhex(color[1:])]
    else:
        hue, strong, light = map(int, re.findall(r"\d+", color))
        parts = colorsys.hls_to_rgb(hue / 360, light / 100, strong / 100)
        rgb = [round(255 * part) for part in parts]
    red, green, blue = (round(max(part - 55, 0) / 40) for part in rgb)
    return f"\x1b[{ground};5;{16 + 36 * red + 6 * green + blue}m"


def _in_color() -> bool:
    """Tell whether what is printed is read on a terminal with colors."""
    return (
        sys.stdout.isatty()
        and not os.environ.get("NO_COLOR")
        and os.environ.get("TERM") != "dumb"
    )


@dataclass(frozen=True)
class Figure:
    """Pictures, and the words that say the same.

    Attributes:
        title: What it shows.
        lines: What the pictures show.
        caption: What stands below the pictures, after the title.
        pictures: They stand beside each other where there is room.
        devices: The devices of a mesh and their colors, row by row, for a
            terminal.
        table: What a page shows below the pictures; it is in the lines.
    """

    title: str
    lines: Sequence[Line]
    caption: str
    pictures: Sequence[Picture]
    devices: Sequence[Sequence[tuple[str, str]]] = ()
    table: Table | None = None

    def words(self) -> str:
        """Say what the pictures show."""
        return "\n".join([self.title, *(line.text for line in self.lines)])

    def colored(self) -> str:
        """Say what the pictures show in a terminal with colors."""
        rows = []
        for row in self.devices:
            cells = (
                f"{_escape(48, color)}\x1b[30m{name:^5}\x1b[0m"
                if color
                else f"{name:^5}"
                for name, color in row
            )
            rows.append(f"  {' '.join(cells)}")
        lines = [line.colored() for line in self.lines]
        return "\n".join([self.title, *rows, *lines])

    def html(self) -> str:
        """Show the pictures on a page."""
        pictures = "".join(map(str, self.pictures))
        words = html.escape(self.words())
        shown = f'<div role="img" aria-label="{words}">{pictures}</div>'
        return (
            f'<figure class="shardscope-drawing">{shown * bool(pictures)}'
            f"<figcaption><code>{html.escape(self.title)}</code>"
            f"<span>{html.escape(self.caption)}</span></figcaption>"
            f"{html_of(self.table) if self.table else ''}</figure>"
        )


class Drawing:
    """What :func:`draw` shows: pictures in a notebook, or text.

    ``print`` colors the text where the output is a terminal that has
    colors, unless ``NO_COLOR`` is set. ``repr`` never does.
    """

    def __init__(self, figures: Sequence[Figure], rest: str = "") -> None:
        self._figures = figures
        self._rest = rest

    def _text(self, figures: Iterator[str]) -> str:
        lines = [*figures] or ["no arrays"]
        return "\n".join([*lines, *filter(None, [self._rest])])

    def __repr__(self) -> str:
        return self._text(figure.words() for figure in self._figures)

    def __str__(self) -> str:
        if not _in_color():
            return repr(self)
        return self._text(figure.colored() for figure in self._figures)

    def _repr_html_(self) -> str:
        rest = f"<p>{self._rest}</p>" if self._rest else ""
        return "".join([*(each.html() for each in self._figures), rest])

    def svg(self) -> str:
        """Give the pictures as one SVG file, for light and dark pages."""
        parts, below, widest = [], 0.0, 0.0
        for figure in self._figures:
            words = html.escape(figure.title)
            parts.append(f'<text x="2" y="{below + 14:.0f}">{words}</text>')
            widest = max(widest, 7.5 * len(figure.title))
            below += 20
            x = 0.0
            height = max(
                (each.height for each in figure.pictures), default=0
            )
            for picture in figure.pictures:
                room = 0 if picture.at_top else height - picture.height
                y = below + room / 2
                move = f"translate({x:.0f} {y:.0f})"
                parts.append(f'<g transform="{move}">{picture}</g>')
                widest = max(widest, x + picture.width)
                x += picture.width + 32
            below += height + 24
        style = (
            "<style>svg{color:#1f2328}@media(prefers-color-scheme:dark)"
            "{svg{color:#e6edf3}}</style>"
        )
        title = f"<title>{html.escape(repr(self))}</title>"
        return f"{Picture(widest, below, [title, style, *parts])}\n"
