"""The recipe, as someone who pastes it would run it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from shardbook_site.cells import CELL

PAGE = Path(__file__).parents[2] / "docs" / "recipe.md"


@pytest.mark.exhaustive("the page runs the same cells")
def test_the_recipe_has_thirty_lines_and_trains(tmp_path: Path) -> None:
    """The first three cells of the page are a program that trains."""
    text = PAGE.read_text("utf-8")
    setup, recipe, training = CELL.findall(text)[:3]
    lines = [line for line in recipe.splitlines() if line.strip()]
    script = tmp_path / "train.py"
    script.write_text("\n".join((setup, recipe, training)), "utf-8")
    result = subprocess.run(
        (sys.executable, script),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    _, printed = result.stdout.splitlines()
    losses = json.loads(printed)

    assert len(lines) <= 30
    assert losses[-1] < 1 < 6 < losses[0]


def test_the_guide_for_gpus_runs_the_recipe() -> None:
    """Its first cell has the first two cells of the recipe, unchanged."""
    setup, recipe = CELL.findall(PAGE.read_text("utf-8"))[:2]
    guide = PAGE.with_name("guides") / "eight_gpus.md"

    assert f"{setup}\n\n{recipe}" in guide.read_text("utf-8"), (
        "copy both cells to docs/guides/eight_gpus.md, and run "
        "nox -s elsewhere"
    )
