"""A page that can't run here shows what was noted, if it is not stale."""

import json
import re
from pathlib import Path

import pytest
from myst_nb.core.read import read_myst_markdown_notebook
from myst_parser.config.main import MdParserConfig
from nbformat import NotebookNode, v4

from shardbook_site import noted

ROOT = Path(__file__).parents[2]
GUIDES = [
    path
    for path in sorted((ROOT / "docs" / "guides").rglob("*.md"))
    if re.search(r"^noted: ", path.read_text("utf-8"), re.M)
]


def test_the_guides_that_need_compilers_are_noted() -> None:
    """These are the pages whose notes the next test compares."""
    assert {guide.stem for guide in GUIDES} == {
        "another_machine",
        "choose_layout",
        "eight_gpus",
    }


@pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: guide.stem)
def test_the_note_of_a_guide_is_not_stale(guide: Path) -> None:
    """It has the cells of the page, and the versions of the site."""
    note = json.loads(guide.with_suffix(".json").read_text("utf-8"))
    lock = (ROOT / "locks" / "elsewhere.txt").read_text("utf-8")
    page = read_myst_markdown_notebook(
        guide.read_text("utf-8"), MdParserConfig()
    )
    cells = noted.code_cells(page)

    assert note["cells"] == [noted.digest(each) for each in cells], (
        "run nox -s elsewhere"
    )
    for name in noted.PACKAGES:
        locked = re.search(rf"^{name}==(\S+)", lock, re.M)
        assert locked
        assert f", {name} {locked[1]}" in note["noted"], (
            "run nox -s elsewhere"
        )


def page_with_a_note(folder: Path, digest: str) -> NotebookNode:
    """Write a note, and return the page that it is of."""
    outputs = [{"output_type": "stream", "name": "stdout", "text": "afar"}]
    note = {"noted": "a day", "cells": [digest], "outputs": [outputs]}
    (folder / "note.json").write_text(json.dumps(note), "utf-8")
    notebook = v4.new_notebook(cells=[v4.new_code_cell("print('here')")])
    notebook.metadata.update(runs_with=["no_module"], noted="note.json")
    return notebook


def test_what_was_noted_is_shown(tmp_path: Path) -> None:
    """The first cell says that nothing ran, and where it did."""
    cell = v4.new_code_cell("print('here')")
    page = page_with_a_note(tmp_path, noted.digest(cell))
    noted.show(page, str(tmp_path))
    said, shown = page.cells[0].outputs

    assert noted.is_noted(page)
    assert "Not run in this build, which lacks no_module" in said.text
    assert "Noted on a day" in said.text
    assert shown.text == "afar"


def test_a_stale_note(tmp_path: Path) -> None:
    """A page that has changed fails, and says what to run."""
    page = page_with_a_note(tmp_path, "0" * 16)
    with pytest.raises(noted.StaleNoteError, match="run nox -s elsewhere"):
        noted.show(page, str(tmp_path))


def test_a_page_that_can_run() -> None:
    """Nothing is noted where its modules are, or where it needs none."""
    notebook = v4.new_notebook()

    assert not noted.is_noted(notebook)
    notebook.metadata["runs_with"] = ["json", "os.path"]
    assert not noted.is_noted(notebook)
