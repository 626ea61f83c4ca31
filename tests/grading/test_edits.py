"""An edit replaces a text that occurs exactly once."""

from pathlib import Path

import edits
import pytest
from edits import attempts, edited

pytestmark = pytest.mark.newest


def test_all_edits_are_made_at_once() -> None:
    """An edit does not see what another one has put in."""
    assert edited("x - y", [["x", "y"], ["y", "x"]], "swapped") == "y - x"


@pytest.mark.parametrize("text", ["x - y", "z + z"])
def test_a_text_to_edit_must_occur_once(text: str) -> None:
    """An error says which attempt has to change, and which of its texts."""
    with pytest.raises(ValueError, match=r"other_name: a text.*\nz$"):
        edited(text, [["z", "y"]], "other_name")


def test_the_texts_of_two_edits_must_not_overlap() -> None:
    """An error says so, for only one of the edits could be made."""
    with pytest.raises(ValueError, match="overlap"):
        edited("x - y", [["x -", "x +"], ["- y", "- z"]], "overlapping")


def test_an_edited_program_must_parse() -> None:
    """An error shows the line that does not parse, before any grading."""
    with pytest.raises(
        ValueError, match=r"parse: .* line 1:\nx = \(\nIn TOML"
    ):
        edited("x = y\nz", [["y", "("]], "broken")


def test_a_broken_table(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """An error names the file and the line."""
    monkeypatch.setattr(edits, "TESTS", tmp_path)
    table = tmp_path / "attempts" / "made_up" / "edits.toml"
    table.parent.mkdir(parents=True)
    table.write_text("[right.one]\nedits = x\n")
    with pytest.raises(ValueError, match=r"made_up/edits.toml .* line 2"):
        attempts("made_up")
