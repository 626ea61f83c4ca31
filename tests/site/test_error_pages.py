"""The pages on errors, run alone."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(path.stem for path in ROOT.glob("docs/guides/errors/*.md"))


@pytest.mark.today
@pytest.mark.exhaustive("a build of the book runs the pages too")
@pytest.mark.parametrize("name", PAGES)
def test_the_cells_of_a_page_hold(name: str) -> None:
    """Jax and flax raise the errors that the guide shows."""
    run = ("shardbook_site.run_page", f"errors/{name}")
    done = subprocess.run(
        (sys.executable, "-m", *run),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout
