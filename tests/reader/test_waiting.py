"""A command that waits says for what."""

import io
import time

import pytest
from rich.console import Console

from shardgrade.reader import waiting
from shardgrade.reader.waiting import Waiting


def test_who_has_no_terminal_is_told_now_and_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without a terminal, a line says what goes on, and for how long."""
    monkeypatch.setattr(waiting, "PAUSE", 0.01)
    console = Console(file=io.StringIO())
    with Waiting(console, "Grading") as shown:
        shown.update("Grading, case [1] of 8")
        deadline = time.monotonic() + 60
        while (said := console.file.getvalue()).count("\n") < 2:
            assert time.monotonic() < deadline
    said = console.file.getvalue()
    time.sleep(0.1)

    assert "Grading, case [1] of 8, for 0 s so far ...\n" in said
    assert console.file.getvalue() == said


def test_who_is_told_at_once_waits_in_silence() -> None:
    """Without a terminal, what ends soon says nothing."""
    console = Console(file=io.StringIO())
    with Waiting(console, "Grading"):
        pass

    assert console.file.getvalue() == ""
