"""What the site tells of its addresses, where the build knows them."""

import re
from pathlib import Path

import pytest
from books import run_docs, write_book

ADDRESS = "https://book.example/en/latest/"
OUTPUT = Path("docs", "_build", "html")


@pytest.fixture(scope="module", params=["", ADDRESS])
def book(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[str, Path]:
    """An address, or none, and a small book that is built for it."""
    folder = tmp_path_factory.mktemp("book")
    write_book(folder, {})
    result = run_docs(folder, READTHEDOCS_CANONICAL_URL=request.param)
    assert result.returncode == 0, result.stdout
    return request.param, folder / OUTPUT


def test_the_sitemap(book: tuple[str, Path]) -> None:
    """It lists the pages; without an address there is none."""
    address, output = book
    sitemap = output / "sitemap.xml"
    found = sitemap.read_text("utf-8") if sitemap.exists() else ""

    expected = [f"{address}index.html"] if address else []
    assert re.findall(r"<loc>(.*?)</loc>", found) == expected


def test_the_card(book: tuple[str, Path]) -> None:
    """A page has one, with a picture that exists, if it has an address."""
    address, output = book
    page = (output / "index.html").read_text("utf-8")
    card = dict(
        re.findall(r'<meta property="og:(\w+)" content="(.*)"', page)
    )

    assert bool(card) == bool(address)
    if address:
        assert card["url"] == f"{address}index.html"
        assert card["title"] == "Title"
        picture = card["image"].removeprefix(address)
        assert (output / picture).is_file()


def test_the_404_page_stands_anywhere(book: tuple[str, Path]) -> None:
    """Nothing on it depends on where it is shown."""
    address, output = book
    page = (output / "404.html").read_text("utf-8")
    root = "/en/latest/" if address else "/"
    links = re.findall(r'(?:href|src|action)="([^"]*)"', page)

    assert f"{root}search.html" in links
    assert f"{root}index.html" in links
    for link in links:
        assert link.startswith(("#", root)), link
