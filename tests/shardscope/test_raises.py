"""What raises() prints, and what it does not accept."""

import pytest

from shardbook import raises

pytestmark = pytest.mark.newest

PLACE = " This error occurs at source: /a/b.py:1:2 (f)"
COLOR = "\x1b[38;2;79;201;177m"


def test_what_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """raises() prints short lines, without the place and colors."""
    with raises(ValueError, "wro.g"):
        print("what the block prints is not shown")
        raise ValueError(f"all {COLOR}wrong\n{'word ' * 30}.{PLACE}")

    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "ValueError: all wrong"
    assert " ".join(lines[1:]) == "word " * 30 + "."
    assert max(map(len, lines)) <= 76


def test_no_error_or_another() -> None:
    """raises() fails without an error, or where the message is another."""
    with (
        pytest.raises(AssertionError, match="got no error"),
        raises(ValueError, "wrong"),
    ):
        pass
    with (
        pytest.raises(AssertionError, match="matches 'wrong', got: right"),
        raises(ValueError, "wrong"),
    ):
        raise ValueError("right")
    with pytest.raises(KeyError), raises(ValueError, "wrong"):
        raise KeyError("wrong")
