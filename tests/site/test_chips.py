"""What is noted of steps compiled for chips, and when it is too old."""

import json
from pathlib import Path

import pytest

from shardbook_site import chips
from shardbook_site.note_chips import MACHINES

PAGES = chips.ROOT / "docs" / "problems"


@pytest.mark.parametrize("name", chips.NAMES)
def test_a_page_shows_what_was_noted(name: str) -> None:
    """Its problem's page has the table, and every machine is in it."""
    page = (PAGES / f"{name}.md").read_text("utf-8")
    note = chips.read(name)

    assert f"```{{on-chips}} {name}\n" in page
    assert [*note["machines"]] == [*MACHINES]
    # Only what needs no collective may send nothing.
    assert all(
        (sum(each["sent"].values()) > 0) == bool(each["collectives"])
        for each in note["machines"].values()
    )


def test_every_table_has_its_note() -> None:
    """A page can't ask for what was never compiled."""
    shown = {
        path.stem
        for path in PAGES.glob("*.md")
        if "{on-chips}" in path.read_text("utf-8")
    }
    assert shown == {*chips.NAMES}


def test_a_changed_solution(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Figures of other code are old, which a release must not have."""
    (tmp_path / "fsdp_step.py").write_text("other code", "utf-8")
    note = {"noted": "a day", "code": "0" * 16, "machines": {}}
    (tmp_path / "fsdp_step.json").write_text(json.dumps(note), "utf-8")
    monkeypatch.setattr(chips, "FOLDER", tmp_path)
    monkeypatch.setattr(chips, "NAMES", ("fsdp_step",))

    assert chips.read("fsdp_step")["is_stale"]
    assert chips.stale() == ["fsdp_step"]

    note["code"] = chips.digest("fsdp_step")
    (tmp_path / "fsdp_step.json").write_text(json.dumps(note), "utf-8")
    assert chips.stale() == []


@pytest.mark.parametrize(
    ("count", "text"),
    [(12, "12 bytes"), (1500, "1.5 kB"), (939667463, "940 MB")],
)
def test_bytes_in_words(count: int, text: str) -> None:
    """A table has two or three digits, with a unit."""
    assert chips.size(count) == text
