"""The pictures of a terminal show what a terminal shows today."""

import re

import pytest
from pictures import ATTEMPT, README, ROOT, RUNS, STATIC, picture, words

INDEX = (ROOT / "docs" / "index.md").read_text("utf-8")


@pytest.mark.parametrize("command", RUNS)
def test_a_picture_has_the_words_of_today(command: str) -> None:
    """What a command prints now is what its picture shows.

    If the new words are meant, draw the pictures again: nox -s pictures.
    """
    drawn = (STATIC / f"terminal-{command}.svg").read_text("utf-8")

    assert words(drawn) == words(picture(command))
    assert "//" not in drawn.replace("http://www.w3.org/2000/svg", "")


@pytest.mark.parametrize(
    # Which lines are the verdict.
    ("command", "verdict"),
    [("check", slice(2, 4)), ("watch", slice(3, 4))],
)
def test_the_alternative_of_a_picture_tells_the_verdict(
    command: str, verdict: slice
) -> None:
    """Who can't see a picture reads the verdict that it shows."""
    name = f"terminal-{command}.svg"
    drawn = (STATIC / name).read_text("utf-8")
    (alternative,) = re.findall(rf"!\[(.*)\]\(.*{name}\)", README)

    lines = words(drawn)[verdict]

    assert lines[0].startswith(("wrong", "right"))
    assert all(line in alternative for line in lines), lines


def test_the_front_page_has_the_same_attempt() -> None:
    """The function that is drawn is the one that the front page grades."""
    assert ATTEMPT.partition("def ")[2] in INDEX
