"""The verdict on an attempt."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from rich.console import Console, ConsoleOptions
from rich.text import Text

from shardgrade.grading import show


@dataclass(frozen=True)
class Verdict:
    """The result of grading an attempt.

    It tells you whether your function does what the problem asks. It does
    not protect against an attempt that is written to deceive the grader.

    Attributes:
        problem: The name of the problem.
        source: The file of the attempt, or where else it came from.
        status: ``"right"``, ``"wrong"``, ``"not written"``, ``"crashed"``
            or ``"incomplete"``: no check failed, but some could not run.
        check: The kind of the check that failed first, or ``""``.
        name: The name of this check among those of the problem, such as
            ``"slopes"``.
        case: Which of the problem's cases that was, such as ``"4 of 11"``;
            those before it passed. ``""`` if none failed, as for a
            right answer or a deprecated function, or if the process
            ended before it could tell.
        call: The call that was made, as Python code.
        given: What was changed around the call.
        got: What came back.
        expected: What should have come back.
        why: What that means, in a sentence.
        read: The section to read, of the problem's page or of the guide to
            errors.
        compared: For a right answer, each quantity with the attempt's
            value and the solution's.
        remarks: For a right answer, what could be better, each with the
            section of the page to read, or ``""``.
        not_run: The checks that could not run, because a private part of
            jax or flax is missing.
        printed: The end of what the attempt printed.
        seconds: How long the grading took, in seconds of wall-clock time.
    """

    problem: str
    source: str
    status: str
    check: str = ""
    name: str = ""
    case: str = ""
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

    @property
    def passed(self) -> bool:
        """Whether no check failed, even if some could not run."""
        return self.status in ("right", "incomplete")

    def as_json(self) -> dict[str, Any]:
        """Return the verdict as a dictionary, for a program."""
        return asdict(self)

    def update(self, **changes: Any) -> "Verdict":
        """Return the same verdict with some parts changed."""
        return replace(self, **changes)

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[Text]:
        """Show it on a terminal, in lines that are no wider than it."""
        return show.terminal_of(self, options.max_width)

    def __repr__(self) -> str:
        return show.text_of(self)

    def _repr_html_(self) -> str:
        return show.html_of(self)
