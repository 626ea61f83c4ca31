"""What the site says of its address, where the build knows it."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from building import GOOD
from conftest import Build

from shardbook_site import link_repository

ADDRESS = "https://book.example/en/latest/"


@pytest.fixture(scope="module", params=["", ADDRESS])
def book(
    request: pytest.FixtureRequest, build_here: Build
) -> tuple[str, Path]:
    """An address, or none, and a small book that is built for it."""
    summary = "summary: A page about nothing.\n---\n\n"
    page = GOOD.replace("---\n\n", summary, 1)
    warnings, output = build_here(
        {"page": page}, READTHEDOCS_CANONICAL_URL=request.param
    )
    assert warnings == ""
    return request.param, output


def test_the_sitemap_lists_the_pages(book: tuple[str, Path]) -> None:
    """The sitemap has the address of each page."""
    address, output = book
    sitemap = (output / "sitemap.xml").read_text("utf-8")

    assert re.findall(r"<loc>(.*?)</loc>", sitemap) == [
        f"{address}{name}.html"
        for name in ("index", "leaf", "page", "part")
    ]


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
    assert f"{root}index.html" in links
    for link in links:
        assert link.startswith(("#", root, "https://")), link


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("https://github.com/me/book.git", "https://github.com/me/book"),
        ("https://gitlab.com/me/book/", "https://gitlab.com/me/book"),
        ("", None),
        ("git@github.com:me/book.git", None),
        ("https://example.org/me/book", None),
        ("https://github.com/me", None),
        ("https://user:secret@github.com/me/book", None),
    ],
)
def test_a_repository_is_linked_where_the_theme_can(
    monkeypatch: pytest.MonkeyPatch, address: str, found: str | None
) -> None:
    """link_repository takes the addresses that the theme can link to."""
    monkeypatch.setenv("READTHEDOCS_GIT_CLONE_URL", address)
    monkeypatch.setenv("READTHEDOCS_GIT_IDENTIFIER", "v1")
    config = SimpleNamespace(html_theme_options={})
    link_repository(None, config)

    assert config.html_theme_options.get("repository_url") == found
