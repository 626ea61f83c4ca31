"""Show a verdict: on a terminal, as text, and in a notebook."""

import html
import re
import textwrap
from collections.abc import Iterator
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.style import Style
from rich.text import Text

from shardbook import book

if TYPE_CHECKING:
    from shardgrade.grading.verdict import Verdict

# The color of each status.
STATUSES = {
    "right": "green",
    "wrong": "red",
    "not written": "yellow",
    "incomplete": "yellow",
    "crashed": "red",
}
# And of lines that differ, from what came back and what should have.
COLORS = {" ": "", "-": "red", "+": "green"}
# What is readable of them, mixed with dark or with light text.
CSS = {"green": "green", "red": "red", "yellow": "darkgoldenrod"}
# What the narrowest page shows whole that is no phone's.
WIDTH = 76
# How many bytes of what an attempt printed are kept, from its end, and how
# many lines of them are shown.
KEPT = 4096
PRINTED = 20
# What a terminal would obey, and what can't be encoded. Python splits lines
# at a carriage return, as at a line feed.
UNSHOWN = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")


def _lines(verdict: "Verdict") -> Iterator[tuple[str, str]]:
    """Yield what to show below the status, each part with its label."""
    for label in ("call", "given", "got", "expected", "read"):
        yield label, getattr(verdict, label)
    for words, section in verdict.remarks:
        yield from (("remark", words), ("read", section))
    for label, (yours, ours) in verdict.compared.items():
        # What is as it must be needs no line.
        if yours != ours:
            yield label, f"{yours}; the solution: {ours}"
        elif label == "collectives" and yours != "none":
            yield label, yours
    yield "not run", ", ".join(verdict.not_run)
    lines = verdict.printed.strip().splitlines()
    cut = len(lines) > PRINTED or len(verdict.printed) >= KEPT
    end = ", the end of it" if cut else ""
    yield f"printed{end}", "\n".join(lines[-PRINTED:])


def _status(verdict: "Verdict") -> str:
    case = f"case {verdict.case}" if verdict.case else ""
    words = ", ".join(filter(None, (verdict.check, case)))
    return f"{verdict.status} ({words})" if words else verdict.status


def terminal_of(verdict: "Verdict", width: int) -> Iterator[Text]:
    """Write it for a terminal, in lines that are no wider than it."""
    yield Text.assemble(
        (verdict.problem, "bold"), "  ", (verdict.source, "dim")
    )
    style = f"bold {STATUSES[verdict.status]}"
    yield _labeled(_status(verdict), verdict.why, style, width)
    # Of several lines, those that agree are written once.
    rows = "\n" in verdict.got + verdict.expected
    for label, words in _lines(verdict):
        if rows and label == "got":
            yield _rows(verdict.got, verdict.expected, width)
        elif words and not (rows and label == "expected"):
            link = ""
            if label == "read":
                link = book.address(verdict.problem, words)
                if not words.startswith(book.GUIDE):
                    words += f" (shardbook open {verdict.problem})"
            yield _labeled(label, words, "bold", width, link)


def text_of(verdict: "Verdict") -> str:
    """Write it in lines of 79 columns."""
    console = Console(
        width=79,
        force_terminal=False,
        force_jupyter=False,
        highlight=False,
    )
    with console.capture() as capture:
        console.print(verdict, crop=False)
    return capture.get().rstrip()


def html_of(verdict: "Verdict") -> str:
    """Write it for a notebook, as on a terminal."""
    text = Text("\n").join(terminal_of(verdict, WIDTH))
    parts = []
    for words, style, _ in text.render(Console(force_jupyter=False)):
        css = "font-weight: bold; " if style and style.bold else ""
        if style and style.color:
            css += f"color: {_mixed(style.color.name)}"
        shown = html.escape(words)
        parts.append(
            f'<span style="{css}">{shown}</span>' if css else shown
        )
    edge = f"0.25rem solid {_mixed(STATUSES[verdict.status])}"
    return (
        '<pre class="shardbook-verdict" style="font-family: monospace; '
        "white-space: pre-wrap; background: none; border: 0; "
        f'border-left: {edge}; padding: 0 1rem">{"".join(parts)}</pre>'
    )


def _mixed(color: str) -> str:
    """Mix a color with that of the text around it.

    So it is readable on light and on dark pages.
    """
    return f"color-mix(in srgb, {CSS[color]} 60%, currentColor)"


def visible(value: Any) -> Any:
    """Write as Python does what can't be shown, in all texts of a value."""
    match value:
        case str():
            return UNSHOWN.sub(lambda found: repr(found[0])[1:-1], value)
        case dict():
            return {name: visible(each) for name, each in value.items()}
        case list() | tuple():
            return type(value)(map(visible, value))
    return value


def _labeled(
    label: str, words: str, style: str, width: int, link: str = ""
) -> Text:
    """Write words after their label, or below it if they have lines."""
    start = f"  {label}: " if words else f"  {label}"
    if label in ("got", "expected"):
        start = f"{start:12}"
    if label == "call":
        # To be copied: without indentation, and without new lines.
        start, words = start.rstrip(), f"\n{words}"
    elif "\n" in words:
        lines = "\n" + _wrapped(words, width, "    ", "      ")
        start, words = start.rstrip(), lines
    else:
        words = _wrapped(start + words, width, "", "    ")[len(start) :]
    text = Text.assemble((start, style), no_wrap=True, overflow="ignore")
    return text.append(words, Style(link=link or None))


def _rows(got: str, expected: str, width: int) -> Text:
    """Write lines once where they agree, and both where they don't."""
    text = Text(no_wrap=True, overflow="ignore")
    text.append("  got -, expected +:", "bold")
    one, other = got.splitlines(), expected.splitlines()
    blocks = SequenceMatcher(None, one, other, False).get_opcodes()
    for kind, a, b, c, d in blocks:
        signs = " " if kind == "equal" else "-+"
        for pair in zip_longest(one[a:b], other[c:d]):
            for sign, line in zip(signs, pair, strict=False):
                if line is not None:
                    line = _wrapped(line, width, f"  {sign} ", " " * 6)
                    text.append(f"\n{line}", COLORS[sign])
    return text


def _wrapped(words: str, width: int, first: str, more: str) -> str:
    """Break the lines of a text between words, and indent them."""
    return "\n".join(
        textwrap.fill(
            line,
            max(width, 40),
            initial_indent=first,
            subsequent_indent=more,
            break_long_words=False,
            break_on_hyphens=False,
        )
        for line in words.splitlines()
    )
