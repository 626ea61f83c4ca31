"""A verdict says what was called, and what came of it."""

import dataclasses

from rich.console import Console

from shardbook.grading.verdict import Verdict

LONG = f"megatron_mlp({', '.join(['normal(8, 12)'] * 9)})"
CALL = f"from shardbook.cases import normal\n{LONG}"
VERDICT = Verdict(
    "megatron_mlp",
    "mine.py",
    "wrong",
    check="values",
    call=CALL,
    given="with a GELU that gives zeros",
    got="1",
    expected="2",
    why="the values differ",
    read="The API",
)


def shown(verdict: Verdict, width: int) -> str:
    """Return what a terminal shows."""
    console = Console(width=width, force_terminal=False)
    with console.capture() as capture:
        console.print(verdict, crop=False)
    return capture.get()


def test_a_call_can_be_copied() -> None:
    """Its lines are whole and not indented, however narrow the terminal."""
    for words in (shown(VERDICT, 60), shown(VERDICT, 100), repr(VERDICT)):
        assert f"\n  call:\n{CALL}\n  given: with a GELU" in words


def test_a_verdict_names_the_checks_that_could_not_run() -> None:
    """A verdict with checks that did not run is not right."""
    verdict = VERDICT.update(
        status="incomplete",
        check="",
        why="no check failed, but one could not run",
        not_run=("structure", "placement"),
    )

    assert not verdict.right
    assert "incomplete: no check failed, but" in repr(verdict)
    assert "not run: structure, placement" in repr(verdict)
    assert "<strong>not run</strong>" in verdict._repr_html_()


def test_json_has_every_part_of_a_verdict() -> None:
    """as_json() gives what makes the same verdict."""
    names = [part.name for part in dataclasses.fields(Verdict)]

    assert list(VERDICT.as_json()) == names
    assert Verdict(**VERDICT.as_json()) == VERDICT
