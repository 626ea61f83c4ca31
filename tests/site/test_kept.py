"""A second build runs the pages of which something has changed."""

import re
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from building import FRONT, GOOD, cell, run_docs, write_book

from shardbook_site import kept

SET_UP = GOOD.removeprefix(FRONT)


def page(title: str, code: str) -> str:
    """Write a page that is told from others by its title."""
    return FRONT.replace("# Title", f"# {title}") + SET_UP + cell(code)


PAGES = {
    "imports": page(
        "Imports",
        "import sys\nsys.path[:0] = ['../src/shardbook']\n"
        "import problems.one",
    ),
    "opens": page(
        "Opens",
        "import pathlib\nprint(pathlib.Path('data.txt').read_text())",
    ),
    "starts": page(
        "Starts",
        "import subprocess\n"
        "print(subprocess.check_output(['echo', 'x'], text=True))",
    ),
    "plain": page("Plain", "print('plain')"),
}


@pytest.mark.exhaustive("nox builds books")
def test_what_runs_again(tmp_path: Path) -> None:
    """Pages run again that may put out something else, and no others."""
    write_book(tmp_path, PAGES)
    (tmp_path / "docs" / "data.txt").write_text("data")
    room = tmp_path / "src" / "shardbook" / "problems"
    room.mkdir(parents=True)
    (room / "one.py").touch()
    (room / "two.py").touch()

    def kept_pages(*arguments: str, ends_well: bool = True) -> set[str]:
        status, words = run_docs(tmp_path, *arguments)
        assert (status == 0) == ends_well, words
        return set(re.findall(r"kept: (\w+)", words))

    def change(name: str, old: str, new: str) -> None:
        path = tmp_path / name
        path.write_text(path.read_text().replace(old, new))

    usual = {"Title", "Imports", "Opens", "Plain"}
    assert kept_pages() == set()
    before = (tmp_path / "docs/_build/html/opens.html").read_bytes()
    assert kept_pages() == usual
    assert (tmp_path / "docs/_build/html/opens.html").read_bytes() == before
    # Prose, what no page imports, what one page opens, its cells.
    change("docs/plain.md", "# Plain", "# Plain\n\nMore.\n")
    (room / "two.py").write_text("2")
    assert kept_pages() == usual
    (room / "one.py").write_text("1")
    assert kept_pages() == usual - {"Imports"}
    (tmp_path / "docs" / "data.txt").write_text("other")
    change("docs/plain.md", "print('plain')", "print('other')")
    assert kept_pages() == usual - {"Opens", "Plain"}
    assert kept_pages("--fresh") == set()
    # A page that fails; all pages may depend on the rest of src.
    change("docs/plain.md", "print('other')", "assert False")
    assert kept_pages(ends_well=False) == usual - {"Plain"}
    assert kept_pages(ends_well=False) == usual - {"Plain"}
    (tmp_path / "src" / "shardbook" / "book.py").touch()
    assert kept_pages(ends_well=False) == set()


CHANGES: dict[str, Any] = {
    "a version": lambda patch, _: patch.setattr(
        kept, "distributions", lambda: [metadata.distribution("jax")]
    ),
    "a variable": lambda patch, _: patch.setenv("JAX_ENABLE_X64", "1"),
    "a compiler": lambda patch, _: patch.setattr(
        kept.shutil, "which", lambda name: f"/usr/bin/{name}-2"
    ),
    "a setting": lambda _, root: (root / "conf.py").write_text("1"),
    "a note": lambda _, root: (root / "docs/_chips/a.json").write_text("1"),
    "a tool": lambda _, root: (root / "src/tool.py").write_text("1"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_all_pages_depend_on(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The surroundings are others when one of these has changed."""
    for folder in ("docs/_chips", "src/shardbook/problems"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "conf.py").touch()
    before = kept.surroundings(tmp_path, "")
    (tmp_path / "src/shardbook/problems/a.py").write_text("1")
    monkeypatch.setenv("SOMETHING_ELSE", "1")
    assert kept.surroundings(tmp_path, "") == before
    CHANGES[name](monkeypatch, tmp_path)

    assert kept.surroundings(tmp_path, "") != before
