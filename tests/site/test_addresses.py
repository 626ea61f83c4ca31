"""What the site says of its addresses, where the build knows them."""

import re
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
from building import GOOD, Build

from shardbook_site import link_repository

ADDRESS = "https://book.example/en/latest/"
KNOWN = {
    "READTHEDOCS_CANONICAL_URL": ADDRESS,
    "READTHEDOCS_GIT_CLONE_URL": "https://github.com/me/book.git",
    "SHARDBOOK_NOTEBOOKS_BRANCH": "notebooks",
}
PAGE = (
    GOOD
    + """
A [link](reference/leaf.md).
![A picture](_static/logo.svg)
A [section](#more).

## More

```{install}
```
"""
)
INSTALL = "pip install git+https://github.com/me/book"


@pytest.fixture(scope="module", params=["", ADDRESS])
def book(
    request: pytest.FixtureRequest, build_here: Build
) -> tuple[str, Path]:
    """An address, or none, and a small book that is built for it."""
    environment = KNOWN if request.param else dict.fromkeys(KNOWN, "")
    warnings, output = build_here({"page": PAGE}, **environment)
    assert warnings == ""
    return request.param, output


def test_no_link_in_markdown_is_empty(book: tuple[str, Path]) -> None:
    """A link leads to its page, or to its section of the same page."""
    _, output = book
    twin = (output / "page.md").read_text("utf-8")

    assert "A [link](reference/leaf.md)." in twin
    assert "A [section](#more)." in twin


def test_the_lists_of_pages(book: tuple[str, Path]) -> None:
    """The sitemap and llms.txt have the address of each page."""
    address, output = book
    sitemap = (output / "sitemap.xml").read_text("utf-8")
    names = ("index", "page", "reference/leaf", "reference/part")

    assert re.findall(r"<loc>(.*?)</loc>", sitemap) == [
        f"{address}{name}.html" for name in names
    ]
    listed = (output / "llms.txt").read_text("utf-8")
    assert f"({address}page.md): A page about nothing." in listed


def test_the_card_describes_the_page(book: tuple[str, Path]) -> None:
    """A page has a description, and a card if the site has an address."""
    address, output = book
    page = (output / "page.html").read_text("utf-8")
    card = dict(
        re.findall(r'<meta property="og:(\w+)" content="(.*)"', page)
    )

    assert 'name="description" content="A page about nothing."' in page
    assert bool(card) == bool(address)
    if address:
        assert card["url"] == f"{address}page.html"
        assert card["title"] == "Title"
        assert card["description"] == "A page about nothing."
        picture = card["image"].removeprefix(address)
        assert (output / picture).is_file()


def test_the_404_page_stands_anywhere(book: tuple[str, Path]) -> None:
    """The links of the 404 page do not depend on where it is shown."""
    address, output = book
    page = (output / "404.html").read_text("utf-8")
    root = "/en/latest/" if address else "/"
    links = re.findall(r'(?:href|src|action)="([^"]*)"', page)

    assert f"{root}search.html" in links
    for link in links:
        assert link.startswith(("#", root, "https://")), link


def test_what_a_repository_is_good_for(book: tuple[str, Path]) -> None:
    """A page offers to edit it, to write an issue, Colab and pip."""
    address, output = book
    page = (output / "page.html").read_text("utf-8")
    words = re.sub("<[^>]*>", "", page)
    for part in (
        "https://github.com/me/book/edit/main/docs/page.md",
        "https://github.com/me/book/issues/new",
        "https://colab.research.google.com/github/me/book/blob/notebooks/"
        "page.ipynb",
    ):
        assert (part in page) == bool(address), part

    assert (INSTALL in words) == bool(address)
    assert ("in a clone of the repository" in words) != bool(address)


def test_a_notebook_runs_and_leads_anywhere(book: tuple[str, Path]) -> None:
    """It installs the package, or says how, and links to its page."""
    address, output = book
    notebook = nbformat.read(output / "_sources" / "page.ipynb", 4)
    first, install, *_, last = (cell.source for cell in notebook.cells)
    page, link = '"Title"', "link"
    if address:
        page = f"[{page}]({address}page.html)"
        link = f"[link]({address}reference/leaf.html)"

    origin = f"This notebook is the page {page} of the book Shardbook."
    assert first == f"# Title\n\n{origin}"
    picture = f"![A picture]({address}_static/logo.svg)"
    assert last.startswith(f"A {link}.")
    assert (picture in last) == bool(address)
    assert ("\nA picture\n" in last) != bool(address)
    assert (f"    %{INSTALL}" in install) == bool(address)
    assert ("raise ImportError" in install) != bool(address)


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("https://github.com/me/book.git", "https://github.com/me/book"),
        ("https://gitlab.com/me/book/", "https://gitlab.com/me/book"),
        ("git@github.com:me/book.git", None),
        ("https://user:secret@github.com/me/book", None),
    ],
)
def test_a_repository_is_linked_where_the_theme_can(
    address: str, found: str | None
) -> None:
    """link_repository takes the addresses that the theme can link to."""
    config = SimpleNamespace(
        repository=address, notebooks_branch="", html_theme_options={}
    )
    link_repository(None, config)

    assert config.html_theme_options.get("repository_url") == found
