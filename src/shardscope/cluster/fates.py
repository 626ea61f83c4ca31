"""What became of each of several processes, and which one is the cause."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from signal import Signals

from shardscope.lines import name_of
from shardscope.tables import shortened

# What a process says that fails because another one is gone or never came.
BECAUSE_OF_OTHERS = re.compile(
    "gloo|connection (closed|reset|refused)|socket closed|coordination serv"
    "|distributed service|heartbeat|deadline_exceeded|unavailable",
    re.IGNORECASE,
)
# How many characters of an error's message are repeated in a line.
SHORT = 120
# How many of the lines that called one another are named.
SHOWN = 3


@dataclass(frozen=True)
class Returned:
    """It came to the end of its code.

    Attributes:
        value: What it returned, pickled.
        fails: Whether the others are to be ended, for what it returned.
        lines: If it called ``sys.exit()``, the reader's lines there.
    """

    value: bytes
    fails: bool = False
    lines: tuple[str, ...] = ()


@dataclass(frozen=True)
class Raised:
    """It raised an error.

    Attributes:
        lines: The reader's lines, from the innermost outwards.
        words: The error as Python prints it.
        trace: The whole traceback.
    """

    lines: tuple[str, ...]
    words: str
    trace: str


@dataclass(frozen=True)
class Exited:
    """It called ``sys.exit`` with a status or a text.

    Attributes:
        lines: The reader's lines, from the innermost outwards.
        code: What it gave to ``sys.exit``.
    """

    lines: tuple[str, ...]
    code: object


@dataclass(frozen=True)
class Died:
    """It ended without a Python error.

    Attributes:
        code: The exit status; the number of a signal if it is negative.
        late: Whether it had come to the end of its code.
    """

    code: int
    late: bool = False


@dataclass(frozen=True)
class Waiting:
    """It had not ended when the group was ended.

    Attributes:
        lines: The reader's lines it was at, from the innermost outwards.
        joined: Whether it had joined the others.
        answered: Whether it has said where it is.
    """

    lines: tuple[str, ...]
    joined: bool
    answered: bool


@dataclass(frozen=True)
class Lingering:
    """All came to the end of their code, but this one had not ended."""


Fate = Returned | Raised | Exited | Died | Waiting | Lingering


def has_failed(fate: Fate | None) -> bool:
    """Tell whether the other processes are to be ended."""
    if isinstance(fate, Returned):
        return fate.fails
    return isinstance(fate, Raised | Exited | Died)


def causes(fates: Mapping[int, Fate]) -> list[int]:
    """Find the processes that failed of themselves.

    Args:
        fates: What became of each process.

    Returns:
        Their indices; empty if none failed, or if all wait.
    """
    failed = {
        index: fate
        for index, fate in fates.items()
        if isinstance(fate, Raised | Exited | Died)
    }
    own = [
        index
        for index, fate in failed.items()
        if not _because_of_others(fate)
    ]
    return own or [*failed]


def _because_of_others(fate: Fate) -> bool:
    if isinstance(fate, Raised):
        return bool(BECAUSE_OF_OTHERS.search(fate.words))
    # How the client of jax.distributed ends a process that lost another.
    return isinstance(fate, Died) and fate.code == -Signals.SIGABRT


def message(fates: Mapping[int, Fate], why: str) -> str:
    """Say what went wrong in which process, and where the others were.

    Args:
        fates: What became of each process.
        why: Why all were ended, if none has failed.
    """
    first = causes(fates)
    of = f"of {len(fates)}"
    groups: dict[str, list[int]] = {}
    for index in first:
        groups.setdefault(describe_fate(fates[index]), []).append(index)
    lines = [
        f"{_named(group, of)} {words}" for words, group in groups.items()
    ]
    if not first:
        lines = [why]
    lines += [
        f"  process {index} {describe_fate(fate, short=bool(first))}"
        for index, fate in fates.items()
        if index not in first
    ]
    if not first:
        lines.append(
            "If they wait for one another: a collective runs once every "
            "process has called it, in the same order and on the same "
            "shapes, so look for a call that one process makes alone, or "
            "more often. If they wait for something else, such as a lock "
            "or a file, or still compute, and may do so, raise the limit."
        )
    return "\n".join(lines)


def whereabouts(fates: Mapping[int, Fate]) -> str:
    """Say where each process was when all were ended from outside."""
    return "\n".join(
        f"process {index} {describe_fate(fate, short=True)}"
        for index, fate in fates.items()
    )


def _named(group: list[int], of: str) -> str:
    if len(group) == 1:
        return f"process {group[0]} {of}"
    most, last = ", ".join(map(str, group[:-1])), group[-1]
    return f"processes {most} and {last} {of}"


def describe_fate(fate: Fate, *, short: bool = False) -> str:
    """Say what became of a process, as the end of a sentence."""
    match fate:
        case Returned():
            if fate.lines:
                return f"had called sys.exit(){_at(fate.lines)}"
            return "had come to the end of its code"
        case Raised():
            if short:
                words = fate.words.partition("\n")[0]
                if len(words) > SHORT:
                    words = f"{words[:SHORT]} ..."
                return f"then raised{_at(fate.lines)}: {words}"
            return f"raised{_at(fate.lines)}:\n{shortened(fate.words)}"
        case Exited():
            return f"called sys.exit({fate.code!r}){_at(fate.lines)}"
        case Died():
            if fate.late:
                return (
                    "came to the end of the code, but then ended with "
                    f"{_ending(fate.code)}"
                )
            then = "then " * short
            return (
                f"{then}ended without a Python error: {_ending(fate.code)}"
            )
        case Lingering():
            return (
                "had come to the end of its code, but did not end: it may "
                "wait for a computation that nobody read, or for a thread"
            )
        case Waiting():
            if not fate.joined:
                where = _at(fate.lines) or ", before any line of your code"
                return f"had not joined the others{where}"
            if not fate.answered:
                return "did not answer when it was asked for its line"
            # What ended the others may have come before it waited.
            return f"{'was' if short else 'waited'}{_at(fate.lines)}"


def _at(lines: tuple[str, ...]) -> str:
    if not lines:
        return ""
    return f" at {' < '.join(map(name_of, lines[:SHOWN]))}"


def _ending(code: int) -> str:
    if code >= 0:
        return f"exit status {code}"
    name = Signals(-code).name
    if name == "SIGKILL":
        return "SIGKILL, as sent by kill -9 or when memory runs out"
    return name
