"""The verdict on an attempt, and how it is shown."""

import html
import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import zip_longest
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.style import Style
from rich.text import Text

from shardbook import book
from shardbook.grading.jobs.sandbox import MEGABYTES, SECONDS, Sandbox
from shardbook.grading.jobs.supervisor import KEPT

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
# How many lines are shown of what an attempt printed.
PRINTED = 20
# What the libraries say as they give up.
OUT_OF_MEMORY = "bad_alloc|StartThread|ut of memory|Cannot allocate memory"
DIED = ("died of", "ended with")
# What a terminal would obey, and what can't be encoded. Python splits lines
# at a carriage return, as at a line feed.
UNSHOWN = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")


@dataclass(frozen=True)
class Verdict:
    """What was found of one attempt.

    It tells you whether your function does what the problem asks. It is no
    proof against an attempt that means to mislead the grader.

    Attributes:
        problem: The name of the problem.
        source: The file of the attempt, or where else it came from.
        status: ``"right"``, ``"wrong"``, ``"not written"``, ``"crashed"``
            or ``"incomplete"``: no check failed, but some could not run.
        check: The check that failed first, or ``""``.
        call: The call that was made, as Python code.
        given: What is altered around the call.
        got: What came back.
        expected: What should have come back.
        why: What that means, in a sentence.
        read: The section to read, of the problem's page or of the guide to
            errors.
        compared: For a right answer, the attempt's value and the
            solution's of each quantity.
        remarks: For a right answer, what could be better; with each, the
            section of the page to read, or ``""``.
        not_run: The checks that could not run, because a private part of
            jax or flax is missing.
        printed: The last of what the attempt printed.
        seconds: How long the grading took, in seconds of wall-clock time.
    """

    problem: str
    source: str
    status: str
    check: str = ""
    call: str = ""
    given: str = ""
    got: str = ""
    expected: str = ""
    why: str = ""
    read: str = ""
    compared: dict[str, tuple[str, str]] = field(default_factory=dict)
    remarks: tuple[tuple[str, str], ...] = ()
    not_run: tuple[str, ...] = ()
    printed: str = ""
    seconds: float = 0.0

    @property
    def right(self) -> bool:
        """Whether the attempt passed all checks."""
        return self.status == "right"

    def as_json(self) -> dict[str, Any]:
        """Return all of it as a dictionary, for a program."""
        return asdict(self)

    def update(self, **changes: Any) -> "Verdict":
        """Return the same verdict with some parts changed."""
        return replace(self, **changes)

    def _lines(self) -> Iterator[tuple[str, str]]:
        """Yield what to show, each part with its label."""
        check = f" ({self.check})" if self.check else ""
        yield self.status + check, self.why
        for label in ("call", "given", "got", "expected"):
            yield label, getattr(self, label)
        yield "read", self.read
        for words, section in self.remarks:
            yield from (("remark", words), ("read", section))
        for label, (yours, ours) in self.compared.items():
            # What is as it must be needs no line.
            if yours != ours:
                yield label, f"{yours}; the solution: {ours}"
            elif label == "collectives" and yours != "none":
                yield label, yours
        yield "not run", ", ".join(self.not_run)
        lines = self.printed.strip().splitlines()
        cut = len(lines) > PRINTED or len(self.printed) >= KEPT
        end = ", the end of it" if cut else ""
        yield f"printed{end}", "\n".join(lines[-PRINTED:])

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> RenderResult:
        """Show it on a terminal, in lines that are no wider than it."""
        width = options.max_width
        yield Text.assemble(
            (self.problem, "bold"), "  ", (self.source, "dim")
        )
        style, hidden = f"bold {STATUSES[self.status]}", set()
        for label, words in self._lines():
            if label == "got" and "\n" in self.got + self.expected:
                yield _rows(self.got, self.expected, width)
                hidden = {"got", "expected"}
            elif (words or style != "bold") and label not in hidden:
                where = link = ""
                if label == "read":
                    if not words.startswith(book.GUIDE):
                        where = f" (shardbook open {self.problem})"
                    link = book.address(self.problem, words)
                yield _labeled(label, words + where, style, width, link)
            style = "bold"

    def __repr__(self) -> str:
        console = Console(
            width=79,
            force_terminal=False,
            force_jupyter=False,
            highlight=False,
        )
        with console.capture() as capture:
            console.print(self, crop=False)
        return capture.get().rstrip()

    def _repr_html_(self) -> str:
        (status, why), *lines = self._lines()
        parts = [_html(status, why)]
        if self.got or self.expected:
            heads = "<th>got</th><th>expected</th>"
            cells = "".join(
                f"<td><pre>{html.escape(words)}</pre></td>"
                for words in (self.got, self.expected)
            )
            rows = f"<tr>{heads}</tr><tr>{cells}</tr>"
            parts.append(f"<table>{rows}</table>")
        for label, words in lines:
            if words and label not in ("got", "expected"):
                parts.append(_html(label, words))
        kind = "right" if self.right else "not-right"
        names = f"shardbook-verdict shardbook-{kind}"
        return f'<div class="{names}">{"".join(parts)}</div>'


def _html(label: str, words: str) -> str:
    """Write words after their label, as they are if they have lines."""
    if not words:
        return f"<div><strong>{label}</strong></div>"
    tag = "pre" if "\n" in words else "span"
    text = f"<{tag}>{html.escape(words)}</{tag}>"
    return f"<div><strong>{label}:</strong> {text}</div>"


def visible(value: Any) -> Any:
    """Write as Python does what can't be shown, in all texts of a value."""
    match value:
        case str():
            return UNSHOWN.sub(lambda found: repr(found[0])[1:-1], value)
        case dict():
            return {name: visible(each) for name, each in value.items()}
        case list() | tuple():
            return [*map(visible, value)]
    return value


def _labeled(
    label: str, words: str, style: str, width: int, link: str
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
    text = Text("  got -, expected +:", no_wrap=True, overflow="ignore")
    for pair in zip_longest(got.splitlines(), expected.splitlines()):
        signs = [" "] if pair[0] == pair[1] else ["-", "+"]
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


def verdicts_of(
    sandbox: Sandbox,
    jobs: Sequence[tuple[str, str, str, str]],
    *,
    seconds: float = SECONDS,
    megabytes: int = MEGABYTES,
    devices: int = 8,
    wanted: Callable[[], bool] | None = None,
) -> Iterator[Verdict]:
    """Grade attempts, each in a process of its own.

    Args:
        sandbox: Where to grade them.
        jobs: For each attempt the problem, ``"file"`` or ``"pickle"``, the
            path or the pickled function, and what to call it.
        seconds: How many seconds of CPU time each may use, and for how
            many it may hardly use the CPU.
        megabytes: How much memory each may ask for, in MiB.
        devices: How many devices to grade on.
        wanted: For a single attempt, tells again and again whether to go
            on; the next attempt at its problem is then graded sooner.

    Yields:
        The verdicts, in the order of the jobs.
    """
    target = "shardbook.grading.run:grade"
    calls = [(*job, devices, seconds) for job in jobs]
    limits: Any = {"seconds": seconds, "megabytes": megabytes}
    if wanted:
        rehearsal = "shardbook.grading.run:rehearse", [jobs[0][0], devices]
        outcome = sandbox.call(
            target, calls[0], rehearsal=rehearsal, wanted=wanted, **limits
        )
        outcomes = iter([outcome])
    else:
        outcomes = sandbox.map(target, calls, **limits)
    for (problem, _, _, source), outcome in zip(
        jobs, outcomes, strict=True
    ):
        printed, ending = outcome.output, outcome.ending
        if outcome.value:
            verdict = Verdict(**visible(outcome.value))
            if verdict.status == "crashed" and not verdict.read:
                verdict = verdict.update(read=book.explained(verdict.why))
        else:
            why = f"its process {ending}"
            if ending.startswith(DIED) and re.search(
                OUT_OF_MEMORY, printed
            ):
                why = f"it needs more than {megabytes} MiB of memory"
                printed = ""
            verdict = Verdict(problem, source, "crashed", why=why)
        yield verdict.update(
            source=visible(source),
            printed=visible(printed),
            seconds=round(outcome.seconds, 3),
        )
