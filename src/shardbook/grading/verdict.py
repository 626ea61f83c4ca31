"""The verdict on an attempt, and how it is shown."""

import html
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from shardbook.grading.sandbox import MEGABYTES, SECONDS, Sandbox

# The color of each status.
STATUSES = {
    "right": "green",
    "wrong": "red",
    "not written": "yellow",
    "incomplete": "yellow",
    "crashed": "red",
}


@dataclass(frozen=True)
class Verdict:
    """What was found of one attempt.

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
        read: The section of the problem's page to read.
        compared: For a right answer, what differs from the solution: for
            each quantity, the attempt's value and the solution's.
        not_run: The checks that could not run, because a private part of
            jax or flax is missing.
        printed: The last of what the attempt printed.
        seconds: How long the grading took.
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

    def _lines(self) -> list[tuple[str, str]]:
        """Return what to show, each part with its label."""
        check = f" ({self.check})" if self.check else ""
        lines = [(self.status + check, self.why)]
        for label in ("call", "given", "got", "expected", "read"):
            if words := getattr(self, label):
                lines.append((label, words))
        if self.not_run:
            lines.append(("not run", ", ".join(self.not_run)))
        if self.printed.strip():
            last = self.printed.strip().splitlines()[-5:]
            lines.append(("printed", "\n".join(last)))
        return lines

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> RenderResult:
        """Show it on a terminal."""
        yield Text.assemble(
            (self.problem, "bold"), "  ", (self.source, "dim")
        )
        style = f"bold {STATUSES[self.status]}"
        beside = "\n" in self.got and "\n" in self.expected
        for label, words in self._lines():
            if beside and label == "got":
                table = Table(box=None, padding=(0, 2), show_edge=False)
                table.add_column("got:", header_style="bold")
                table.add_column("expected:", header_style="bold")
                table.add_row(Text(self.got), Text(self.expected))
                yield table
            elif not (beside and label == "expected"):
                yield _labeled(label, words, style)
            style = "bold"
        if self.compared:
            yield Text(f"  {'':22} {'yours':>14} {'solution':>14}", "bold")
            for name, (yours, ours) in self.compared.items():
                yield Text(f"  {name:22} {yours:>14} {ours:>14}")

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
        rows = "".join(
            f"<dt><strong>{html.escape(label)}</strong></dt>"
            f"<dd><pre>{html.escape(words)}</pre></dd>"
            for label, words in self._lines()
            if words or label == self.status
        )
        compared = ""
        if self.compared:
            compared = "<tr><th></th><th>yours</th><th>solution</th></tr>"
            for name, (yours, ours) in self.compared.items():
                cells = map(html.escape, (name, yours, ours))
                compared += f"<tr><td>{'</td><td>'.join(cells)}</td></tr>"
            compared = f"<table>{compared}</table>"
        parts = f"<dl>{rows}</dl>{compared}"
        return f'<div class="shardbook-verdict">{parts}</div>'


def _labeled(label: str, words: str, style: str) -> Text:
    """Write words after their label, or below it if they have lines."""
    text = Text.assemble(
        "  ",
        (f"{label}:" if words else label, style),
        "\n" if "\n" in words else " ",
    )
    if label == "call":
        # To be copied: without indentation, and without new lines.
        text.no_wrap = True
        text.overflow = "ignore"
    elif "\n" in words:
        words = textwrap.indent(words, "    ")
    return text.append(words)


def verdicts_of(
    sandbox: Sandbox,
    jobs: Sequence[tuple[str, str, str, str]],
    *,
    seconds: float = SECONDS,
    megabytes: int = MEGABYTES,
    devices: int = 8,
    again: bool = False,
) -> Iterator[Verdict]:
    """Grade attempts, each in a process of its own.

    Args:
        sandbox: Where to grade them.
        jobs: For each attempt the problem, ``"file"`` or ``"pickle"``, the
            path or the pickled function, and what to call it.
        seconds: How long each may take.
        megabytes: How much memory each may ask for, in MiB.
        devices: How many devices to grade on.
        again: Whether the same problem is likely to be attempted again: a
            single attempt of a later call is then graded sooner.

    Yields:
        The verdicts, in the order of the jobs.
    """
    target = "shardbook.grading.run:grade"
    calls = [(*job, devices) for job in jobs]
    if again and len(jobs) == 1:
        outcome = sandbox.call(
            target,
            calls[0],
            seconds=seconds,
            megabytes=megabytes,
            rehearsal=(
                "shardbook.grading.run:rehearse",
                [jobs[0][0], devices],
            ),
        )
        outcomes = iter([outcome])
    else:
        outcomes = sandbox.map(
            target, calls, seconds=seconds, megabytes=megabytes
        )
    for (problem, _, _, source), outcome in zip(
        jobs, outcomes, strict=True
    ):
        if outcome.value is None:
            why = f"its process {outcome.ending}"
            verdict = Verdict(problem, source, "crashed", why=why)
        else:
            verdict = Verdict(**outcome.value)
        yield verdict.update(
            printed=outcome.output, seconds=round(outcome.seconds, 3)
        )
