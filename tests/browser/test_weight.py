"""A page moves little: what it shows, and no more."""

import re
from pathlib import Path

from playwright.sync_api import Page
from tour import Tour

KIB, REQUESTS = 170, 20
# With the text of all pages.
SEARCH_KIB = 540
SEARCH = {"language_data", "search", "searchindex", "searchtools"}
# Scripts, and what a page that loads one has.
PARTS = {
    "errors": "error-filter",
    "explorer": "shardbook-explorer",
    "moved": "moved",
    "predict": "predict",
}


def test_a_page_is_light(
    visit: Page, tour: Tour, html: Path, page_name: str
) -> None:
    """A page is small, compressed and with its pictures.

    It loads no font, the search on the page of the search alone, and
    scripts where there is something to do for them.
    """
    files = tour.files()
    # A file of several scripts has the names of all.
    names = {part for name, _, _ in files for part in name.split(".")}
    text = (html / page_name).read_text("utf-8")

    is_search = page_name == "search.html"
    assert 0 < sum(kib for _, _, kib in files) <= KIB, files
    assert len(files) <= REQUESTS, files
    assert "Font" not in {kind for _, kind, _ in files}
    assert names & SEARCH == ({"search"} if is_search else set())
    for script, part in PARTS.items():
        shown = re.search(f'class="{part}"', text)
        assert (script in names) == bool(shown), script


def test_a_search_loads_the_text_of_all_pages(
    tour: Tour, quiet: None
) -> None:
    """In a file beside the page, which a browser keeps for the next one."""
    tour.visit("search.html?q=mesh")
    files = tour.files()

    assert "sections.js" in {name for name, _, _ in files}
    assert sum(kib for _, _, kib in files) <= SEARCH_KIB, files
