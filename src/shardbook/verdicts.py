"""What is said of an attempt."""

import html
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from shardbook.warm import MEGABYTES, SECONDS, Warm

# The words for each status, and whether they are good news.
STATUSES = {
    "right": "green",
    "wrong": "red",
    "not written": "yellow",
    "crashed": "red",
}


@dataclass(frozen=True)
class Verdict:
    """What was found of one attempt.

    Attributes:
        problem: The name of the problem.
        source: The file of the attempt, or where else it came from.
        status: ``"right"``, ``"wrong"``, ``"not written"`` or
            ``"crashed"``.
        check: The check that failed first, or ``""``.
        call: The call that was made.
        got: What came back.
        expected: What should have come back.
        why: What that means, in a sentence.
        read: The section of the problem's page to read.
        compared: For a right answer, what differs from the solution: for
            each quantity, that of the attempt and that of the solution.
        printed: The last of what the attempt printed.
        seconds: How long the grading took.
    """

    problem: str
    source: str
    status: str
    check: str = ""
    call: str = ""
    got: str = ""
    expected: str = ""
    why: str = ""
    read: str = ""
    compared: dict[str, tuple[str, str]] = field(default_factory=dict)
    printed: str = ""
    seconds: float = 0.0

    @property
    def right(self) -> bool:
        """Whether the attempt passed all checks."""
        return self.status == "right"

    def as_json(self) -> dict[str, Any]:
        """Give all of it for a program."""
        return asdict(self)

    def update(self, **changes: Any) -> "Verdict":
        """Give the same verdict with some parts changed."""
        return replace(self, **changes)

    def _lines(self) -> list[tuple[str, str]]:
        """Give what to show, each with its label."""
        check = f" ({self.check})" if self.check else ""
        lines = [(self.status + check, self.why)]
        for label in ("call", "got", "expected"):
            if words := getattr(self, label):
                lines.append((label, words))
        if self.read:
            lines.append(("read", self.read))
        if self.printed.strip():
            last = self.printed.strip().splitlines()[-5:]
            lines.append(("printed", "\n".join(last)))
        return lines

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> RenderResult:
        """Show it on a terminal."""
        style = STATUSES[self.status]
        yield Text.assemble(
            (self.problem, "bold"), "  ", (self.source, "dim")
        )
        beside = "\n" in self.got and "\n" in self.expected
        for number, (label, words) in enumerate(self._lines()):
            if beside and label in ("got", "expected"):
                if label == "got":
                    yield self._beside()
                continue
            first = f"bold {style}" if number == 0 else "bold"
            yield Text.assemble(
                "  ",
                (f"{label}:" if words else label, first),
                " " if "\n" not in words else "\n",
                words if "\n" not in words else _indented(words),
            )
        if self.compared:
            yield Text(f"  {'':22} {'yours':>14} {'solution':>14}", "bold")
            for name, (yours, ours) in self.compared.items():
                yield Text(f"  {name:22} {yours:>14} {ours:>14}")

    def _beside(self) -> Table:
        """Put what came back beside what was expected."""
        table = Table(box=None, padding=(0, 2), show_edge=False)
        for label in ("got", "expected"):
            table.add_column(f"{label}:", header_style="bold")
        table.add_row(Text(self.got), Text(self.expected))
        return table

    def __repr__(self) -> str:
        console = Console(
            width=79,
            color_system=None,
            force_terminal=False,
            force_jupyter=False,
            highlight=False,
        )
        with console.capture() as capture:
            console.print(self)
        return capture.get().rstrip()

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<dt><strong>{html.escape(label)}</strong></dt>"
            f"<dd><pre>{html.escape(words)}</pre></dd>"
            for label, words in self._lines()
            if words or label == self.status
        )
        compared = "".join(
            f"<tr><td>{html.escape(name)}</td>"
            f"<td>{html.escape(yours)}</td><td>{html.escape(ours)}</td></tr>"
            for name, (yours, ours) in self.compared.items()
        )
        if compared:
            head = "<tr><th></th><th>yours</th><th>solution</th></tr>"
            compared = f"<table>{head}{compared}</table>"
        parts = f"<dl>{rows}</dl>{compared}"
        return f'<div class="shardbook-verdict">{parts}</div>'


def _indented(words: str) -> str:
    return "\n".join(f"    {line}" for line in words.splitlines())


def verdicts_of(
    warm: Warm,
    jobs: Sequence[tuple[str, str, str, str]],
    *,
    seconds: float = SECONDS,
    megabytes: int = MEGABYTES,
    devices: int = 8,
    again: bool = False,
) -> Iterator[tuple[int, Verdict]]:
    """Have attempts graded, each in a process of its own.

    Args:
        warm: The process to fork them from.
        jobs: For each attempt the problem, ``"file"`` or ``"pickle"``, the
            path or the pickled function, and what to call it.
        seconds: How long each may take.
        megabytes: How much memory each may ask for.
        devices: How many devices to grade on.
        again: Whether the same problem is likely to be attempted again:
            the first attempt of a later call is then graded sooner.

    Yields:
        The number of an attempt and its verdict, as they are found.
    """
    outcomes = warm.run(
        "shardbook.grading:grade",
        [(*job, devices) for job in jobs],
        seconds=seconds,
        megabytes=megabytes,
        rehearsal=(
            ("shardbook.grading:rehearse", (jobs[0][0], devices))
            if again and len(jobs) == 1
            else None
        ),
    )
    for number, outcome in outcomes:
        problem, _, _, source = jobs[number]
        if outcome.value is None:
            why = f"its process {outcome.ending}"
            verdict = Verdict(problem, source, "crashed", why=why)
        else:
            verdict = Verdict(**outcome.value)
        yield (
            number,
            verdict.update(
                printed=outcome.output, seconds=round(outcome.seconds, 3)
            ),
        )
