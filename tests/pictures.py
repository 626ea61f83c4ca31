"""Draw what a terminal shows of real runs: "nox -s pictures".

The README shows these pictures, for the attempt that it shows.
"""

import re
import sys
from collections.abc import Callable, Iterator
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree

from rich.console import Console
from rich.style import Style
from rich.text import Text
from terminal import COLUMNS, Terminal

from shardgrade.reader import attempt_files

ROOT = Path(__file__).parents[1]
STATIC = ROOT / "docs" / "_static"
README = (ROOT / "README.md").read_text("utf-8")
NAME = "place_batch"
# The attempt that the README shows.
ATTEMPT = re.findall(r"^```python\n(.*?)^```", README, re.M | re.S)[0]
# What differs from run to run.
FLEETING = re.compile(r"\d\d:\d\d:\d\d|\d+ of \d+ solved")
# A dark window, on light pages and dark ones: red, green and yellow by the
# numbers that a terminal gives them, then the window, words and dim words.
COLORS = {1: "#ff8b82", 2: "#7ee787", 3: "#e3b341"}
WINDOW, WORDS, DIM = "#16181d", "#e6edf3", "#a7b0ba"
# In pixels: of the font, of a column, of a line, and around the text.
SIZE, COLUMN, LINE, MARGIN = 14, 8.4, 20, 12
# Where the screen is cleared, and lines that are erased once written.
CLEARED = "\x1b[2J"
ERASED = re.compile(r"[^\n]*(\n[^\n]*\x1b\[1A|\r)\x1b\[2K")
# Spaces that no reader of SVG drops.
SPACES = str.maketrans(" ", "\N{NO-BREAK SPACE}")


def check(folder: Path) -> str:
    """Check the attempt; return what the terminal was sent."""
    path = attempt_files.start(NAME, folder / attempt_files.FOLDER)
    path.write_text(ATTEMPT)
    terminal = Terminal(folder, "check", NAME)
    terminal.end()
    return terminal.seen


def watch(folder: Path) -> str:
    """Mend the attempt while it is watched; return what was sent last."""
    path = attempt_files.start(NAME, folder / attempt_files.FOLDER)
    path.write_text(ATTEMPT)
    terminal = Terminal(folder, "watch", NAME)
    terminal.until("wrong", "quit")
    path.write_text(attempt_files.solution(NAME))
    sent = terminal.until("right", "quit")
    terminal.press("q")
    terminal.end()
    return sent.rpartition(CLEARED)[2]


RUNS: dict[str, Callable[[Path], str]] = {"check": check, "watch": watch}


def picture(command: str) -> str:
    """Run a command, and draw what the terminal shows in the end."""
    with TemporaryDirectory() as folder:
        sent = RUNS[command](Path(folder))
    shown = Text(f"$ shardbook {command} {NAME}\n")
    sent = ERASED.sub("", sent.replace("\r\n", "\n"))
    shown.append(Text.from_ansi(sent.rstrip()))
    # As a terminal breaks lines: at its edge, within words too.
    lines = [
        part
        for line in shown.split()
        for part in line.divide(range(COLUMNS, len(line), COLUMNS))
    ]
    width = COLUMNS * COLUMN + 2 * MARGIN
    height = len(lines) * LINE + 2 * MARGIN
    return "\n".join(
        (
            '<svg xmlns="http://www.w3.org/2000/svg" '
            f'width="{width:g}" height="{height:g}" '
            f'viewBox="0 0 {width:g} {height:g}" '
            f'font-family="ui-monospace, monospace" font-size="{SIZE}">'
            f'<rect x="0.5" y="0.5" width="{width - 1:g}" '
            f'height="{height - 1:g}" rx="8" fill="{WINDOW}" '
            'stroke="#57606a"/>',
            *drawn(lines),
            "</svg>\n",
        )
    )


def drawn(lines: list[Text]) -> Iterator[str]:
    """Draw each line, as wide as its columns are in any font."""
    console = Console(width=COLUMNS + 1)
    for number, line in enumerate(lines):
        line.rstrip()
        line.plain = line.plain.translate(SPACES)
        if not line:
            continue
        y = MARGIN + number * LINE + SIZE
        spans = "".join(
            f"<tspan {look(part.style)}>{escape(part.text)}</tspan>"
            for part in line.render(console, end="")
        )
        yield (
            f'<text x="{MARGIN}" y="{y}" '
            f'textLength="{len(line) * COLUMN:g}">{spans}</text>'
        )


def look(style: Style | None) -> str:
    """Write a style of the terminal in attributes."""
    style = style or Style()
    color = DIM if style.dim else WORDS
    if style.color and style.color.number:
        color = COLORS[style.color.number]
    weight = ' font-weight="bold"' if style.bold else ""
    return f'fill="{color}"{weight}'


def words(svg: str) -> list[str]:
    """Read the lines of a picture, without what differs between runs."""
    lines = ElementTree.fromstring(svg).findall("{*}text")
    return [
        FLEETING.sub("...", " ".join("".join(line.itertext()).split()))
        for line in lines
    ]


if __name__ == "__main__":
    for command in RUNS:
        target = STATIC / f"terminal-{command}.svg"
        target.write_text(picture(command), "utf-8")
        print(f"Drew {target}", file=sys.stderr)
