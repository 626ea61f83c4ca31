"""A page has one name for the commands that run it and that build it."""

from pathlib import Path

import pytest
from one_page import page_of as built

from shardbook_site.run_page import DOCS, page_of as run, set_flags


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("who_holds", "problems/who_holds.md"),
        ("problems/who_holds", "problems/who_holds.md"),
        ("first_look", "first_look.md"),
        ("errors", "guides/errors.md"),
        ("guides/errors", "guides/errors.md"),
        ("guides/errors.md", "guides/errors.md"),
        ("errors/jit", "guides/errors/jit.md"),
    ],
)
def test_a_page_is_found_by_its_name_and_its_path(
    name: str, path: str
) -> None:
    """Both commands take either."""
    assert built(name) == run(name) == DOCS / path


def test_an_unknown_page() -> None:
    """Both commands say what a page is called."""
    with pytest.raises(SystemExit, match="There is no page 'eror'"):
        built("eror")


def test_a_page_without_front_matter(tmp_path: Path) -> None:
    """The message says where to find some."""
    page = tmp_path / "stream.md"
    page.write_text("# Stream a batch\n", "utf-8")

    with pytest.raises(SystemExit, match=r"stream.md has no front matter"):
        set_flags(page)
