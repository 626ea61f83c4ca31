"""The notebook that a reader starts from, run as readers run it."""

from pathlib import Path

import nbclient
import pytest
from building import GOOD, Build
from nbformat import v4

from shardbook.problems import NAMES
from shardbook_site.downloads import starter_cells
from shardgrade.reader import attempt_files

TWIN = "# Title\n\nWhy.\n\n## Problem\n\nThe task.\n\n## Hints\n\nTry.\n"


def test_a_starter_has_devices_and_grades() -> None:
    """A mesh of eight devices can be made in it, and an answer graded."""
    name = NAMES[0]
    cells = starter_cells(TWIN, name, "A link.")
    text, hints, *before, starter, check = cells
    assert hints.source == "## Hints\n\nTry."
    assert text.source == "# Title\n\nA link.\n\nThe task."
    assert starter.source == attempt_files.starter(name).strip()

    starter.source = attempt_files.solution(name)
    mesh = v4.new_code_cell("jax.make_mesh((2, 4), ('data', 'model'))")
    book = v4.new_notebook(cells=[*before, mesh, starter, check])
    nbclient.NotebookClient(
        book, timeout=600, kernel_name="python3"
    ).execute()
    (verdict,) = book.cells[-1].outputs

    assert ">  right<" in verdict["data"]["text/html"]


def test_the_page_shows_code_to_repair(
    build_here: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The directive shows the file that a problem hands out."""
    monkeypatch.setattr(attempt_files, "PROBLEMS", tmp_path)
    (tmp_path / "starters").mkdir()
    code = "def made_up():\n    return 'repair me'\n"
    (tmp_path / "starters" / "made_up.py").write_text(code)
    page = f"{GOOD}\n```{{attempt}} made_up\n```\n"
    warnings, output = build_here({"page": page})

    assert warnings == ""
    assert f"```python\n{code}```" in (output / "page.md").read_text()


def test_a_notebook_folds_what_the_page_folds(build_here: Build) -> None:
    """Hints are closed until the reader opens them."""
    fold = ":::{admonition} The idea\n:collapsible: closed\n\nThink.\n:::\n"
    warnings, output = build_here({"page": f"{GOOD}\n{fold}\nAfter.\n"})
    folded = (
        "<details>\n<summary>The idea</summary>\n\nThink.\n\n"
        "</details>\n\nAfter."
    )

    assert warnings == ""
    assert folded in (output / "page.md").read_text()
    notebook = (output / "_sources" / "page.ipynb").read_text()
    assert "<summary>The idea</summary>" in notebook
