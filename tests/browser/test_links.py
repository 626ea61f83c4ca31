"""Whatever a page points to is there."""

from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

from bs4 import BeautifulSoup
from playwright.sync_api import Page

from shardbook.problems import NAMES

Soups = dict[str, BeautifulSoup]
HOST = "https://here.invalid/"


def targets(name: str, soup: BeautifulSoup) -> list[str]:
    """Give the addresses within the site that a page points to."""
    found = [
        urljoin(HOST + name, element[attribute])
        for attribute in ("href", "src", "action")
        for element in soup.find_all(attrs={attribute: True})
    ]
    return [address for address in found if address.startswith(HOST)]


def test_every_link_leads_somewhere(html: Path, soups: Soups) -> None:
    """Files and anchors exist, once: pages, downloads, pictures."""
    ids = {
        name: [element["id"] for element in soup.find_all(id=True)]
        for name, soup in soups.items()
    }
    dead = []
    for name, soup in soups.items():
        assert len(ids[name]) == len({*ids[name]}), name
        for address in targets(name, soup):
            path = unquote(urlsplit(address).path).lstrip("/")
            path = path or "index.html"
            anchor = unquote(urlsplit(address).fragment)
            if not (html / path).is_file():
                dead.append((name, path))
            # What the explorer keeps in an address is no anchor.
            elif anchor and "=" not in anchor and anchor not in ids[path]:
                dead.append((name, f"{path}#{anchor}"))

    assert dead == []


def test_a_section_that_moved_leads_on(page: Page, soups: Soups) -> None:
    """An address from before leads to where the section is now."""
    for old, new in (
        ("recipe.html#a-linen-model", "guides/adapt_recipe.html#*"),
        (
            "guides/axis_types.html#mistakes-that-no-error-names",
            "guides/explicit_gaps.html#sums-that-count-too-often",
        ),
    ):
        page.goto(old)
        page.wait_for_url(f"**/{new}")
    moved = soups["recipe.html"].select(".moved[id] > a")

    assert {link.parent["id"] for link in moved} == {
        "a-linen-model",
        "a-model-that-you-have-already",
        "convolutions-batchnorm-and-dropout",
        "explicit-axes",
    }


def test_every_page_says_what_it_is(soups: Soups) -> None:
    """A page has a title, a description and a language of its own."""
    titles = {soup.title.text for soup in soups.values()}
    descriptions = [
        soup.find("meta", attrs={"name": "description"})["content"]
        for name, soup in soups.items()
        if name not in ("404.html", "search.html")
    ]

    assert len(titles) == len(soups)
    assert len(descriptions) == len({*descriptions})
    assert all(len(words) > 20 for words in descriptions)
    assert {soup.html["lang"] for soup in soups.values()} == {"en"}


def test_each_word_of_the_glossary_is_used(soups: Soups) -> None:
    """Every entry is linked from some page, at most once from each."""
    links = [
        [link["href"].split("#")[1] for link in soup.select("a.first-use")]
        for soup in soups.values()
    ]
    assert all(len(found) == len({*found}) for found in links)
    linked = {anchor for found in links for anchor in found}
    definitions = soups["glossary.html"].select("dl.glossary > dd")
    assert len(definitions) > 15
    for definition in definitions:
        names = set()
        # An entry may have several terms above it.
        for term in definition.find_previous_siblings(["dt", "dd"]):
            if term.name == "dd":
                break
            names.add(term["id"])
        assert names & linked, names


def test_the_problems_follow_each_other(soups: Soups) -> None:
    """The next page of a problem is the next problem of the path."""
    for name, following in pairwise(NAMES):
        link = soups[f"problems/{name}.html"].select_one("a.right-next")
        assert link["href"] == f"{following}.html"


def test_the_page_for_a_wrong_address(page: Page) -> None:
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

    assert answer.status == 404
    assert article.locator("h1").inner_text() == "Page not found"
    assert article.locator("a[href*=problems]").count() == len(NAMES)
    article.locator("input[name=q]").fill("kernel")
    article.locator("input[name=q]").press("Enter")
    page.wait_for_url("**/search.html?q=kernel")
