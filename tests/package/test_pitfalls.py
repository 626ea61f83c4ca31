"""Mistakes that must stay mistakes."""

import pytest

from shardbook import raises


def test_the_error_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """Its name and message, and nothing that the block says."""
    with raises(ValueError, "wro.g"):
        print("unheard")
        raise ValueError("all wrong\n" + "word " * 30)

    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "ValueError: all wrong"
    assert len(lines) == 3
    assert max(map(len, lines)) <= 76


def test_a_place_in_a_file_is_left_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """JAX ends some messages with the line of the call."""
    with raises(ValueError, "bad"):
        raise ValueError(
            "bad. This error occurs at source: /a/b.py:1:2 (f)"
        )

    assert capsys.readouterr().out == "ValueError: bad.\n"


def test_colours_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    """Flax colours what it quotes, where there is a notebook."""
    with raises(ValueError, "Duplicate Param"):
        raise ValueError("Duplicate \x1b[38;2;79;201;177mParam\x1b[0m")

    assert capsys.readouterr().out == "ValueError: Duplicate Param\n"


def test_no_error_is_an_error() -> None:
    """A mistake that does no harm any more fails the page."""
    with (
        pytest.raises(AssertionError, match="got no error"),
        raises(ValueError, "wrong"),
    ):
        pass


def test_another_message_is_an_error() -> None:
    """A mistake that fails in another way fails the page."""
    with (
        pytest.raises(AssertionError, match="matches 'wrong', got: right"),
        raises(ValueError, "wrong"),
    ):
        raise ValueError("right")


def test_another_error_is_passed_on() -> None:
    """Only the error that was expected is caught."""
    with pytest.raises(KeyError), raises(ValueError, "wrong"):
        raise KeyError("wrong")
