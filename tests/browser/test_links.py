"""Whatever a page points to is there."""

from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import pytest
from bs4 import BeautifulSoup
from playwright.sync_api import Page

HOST = "https://here.invalid/"


@pytest.fixture(scope="module")
def soups(html: Path, pages: list[str]) -> dict[str, BeautifulSoup]:
    """Read every page."""
    return {
        name: BeautifulSoup((html / name).read_text("utf-8"), "html.parser")
        for name in pages
    }


def targets(name: str, soup: BeautifulSoup) -> list[str]:
    """Give the addresses within the site that a page points to."""
    found = [
        urljoin(HOST + name, element[attribute])
        for attribute in ("href", "src", "action")
        for element in soup.find_all(attrs={attribute: True})
    ]
    return [address for address in found if address.startswith(HOST)]


def test_every_link_leads_somewhere(
    html: Path, soups: dict[str, BeautifulSoup]
) -> None:
    """Files and anchors exist: pages, downloads, pictures, scripts."""
    ids = {
        name: {element["id"] for element in soup.find_all(id=True)}
        for name, soup in soups.items()
    }
    dead = []
    for name, soup in soups.items():
        found = targets(name, soup)
        assert found, name
        for address in found:
            path = unquote(urlsplit(address).path).lstrip("/")
            path = path or "index.html"
            anchor = unquote(urlsplit(address).fragment)
            if not (html / path).is_file():
                dead.append((name, path))
            # What the explorer keeps in an address is no anchor.
            elif anchor and "=" not in anchor and anchor not in ids[path]:
                dead.append((name, f"{path}#{anchor}"))

    assert dead == []


def test_no_id_is_there_twice(soups: dict[str, BeautifulSoup]) -> None:
    """An anchor leads to one place."""
    for name, soup in soups.items():
        ids = [element["id"] for element in soup.find_all(id=True)]

        assert len(ids) == len(set(ids)), name


def test_every_page_says_what_it_is(
    soups: dict[str, BeautifulSoup],
) -> None:
    """A page has a title, a description and a language of its own."""
    described = {
        name: soup
        for name, soup in soups.items()
        if name not in ("404.html", "search.html")
    }
    descriptions = {
        soup.find("meta", attrs={"name": "description"})["content"]
        for soup in described.values()
    }
    titles = {soup.title.text for soup in soups.values()}

    assert len(descriptions) == len(described)
    assert all(len(words) > 20 for words in descriptions)
    assert len(titles) == len(soups)
    assert {soup.html["lang"] for soup in soups.values()} == {"en"}


def test_the_page_for_a_wrong_address(page: Page, html: Path) -> None:
    """At any depth it leads on: to the problems, and to the search."""
    answer = page.request.get("no/such/page.html")
    # The browser would complain of the status, as it should.
    page.route(
        "**/no/such/page.html",
        lambda route: route.fulfill(
            body=answer.body(), content_type="text/html"
        ),
    )
    page.goto("no/such/page.html")
    article = page.locator("article")
    first = article.locator("a[href*=problems]").first
    title = first.inner_text()

    assert answer.status == 404
    assert article.locator("h1").inner_text() == "Page not found"
    problems = list((html / "problems").glob("*.html"))
    assert article.locator("a[href*=problems]").count() == len(problems)

    first.click()
    assert page.locator("h1").first.inner_text().startswith(title)

    page.goto("no/such/page.html")
    article.locator("input[name=q]").fill("kernel")
    article.locator("input[name=q]").press("Enter")
    page.wait_for_url("**/search.html?q=kernel")
