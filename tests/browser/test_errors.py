"""The list of errors has them all, finds a message, and leads on.

So does the table of silent failures.
"""

import tomllib
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from messages import QUOTED
from playwright.sync_api import Page, expect

from shardbook import book

INDEX = "guides/errors.html"
SECTIONS = book.explanations()
# The parts of the guide when it was one page, and where they are now.
PARTS = {
    "devices-and-meshes": "meshes.html#devices-and-meshes",
    "specs": "meshes.html#specs",
    "where-arrays-are": "jit.html#where-arrays-are",
    "explicit-axes": "explicit_axes.html",
    "modules-and-state": "modules.html#modules-and-state",
    "checkpoints": "modules.html#checkpoints",
    "donated-arrays": "jit.html#donated-arrays",
    "shard-map": "shard_map.html",
    "several-processes": "several_processes.html",
    "older-versions": "shard_map.html#older-versions",
}
LINES = ".error-list li:not(:has(li))"


def test_the_list_has_every_section(html: Path) -> None:
    """A line has the id that its section had, and a link to it."""
    text = (html / INDEX).read_text("utf-8")
    soup = BeautifulSoup(text, "html.parser")
    sections = {
        name: f"{each.page.rpartition('/')[2]}.html#{name}"
        for each in SECTIONS
        for name in [book.section_id(each.title)]
    }
    lines = {
        line["id"]: line.a["href"].removeprefix("errors/")
        for line in soup.select(".error-list li > p > [id]")
    }

    assert len(sections) == len(SECTIONS) == len(soup.select(LINES))
    assert (PARTS | sections).items() <= lines.items()


@pytest.mark.parametrize(
    "old",
    [
        "errors#explicit-axes",
        "errors#specs",
        "errors#is-forbidden-by-no-collectives",
        "silent_failures#something-compiles-again",
        "silent_failures#tied-weights-are-trained-apart",
    ],
)
def test_an_old_link_leads_on(page: Page, old: str) -> None:
    """From a page of all sections to the section, with one way back."""
    index, _, name = old.partition("#")
    page.goto("index.html")
    page.goto(f"guides/{index}.html#{name}")
    page.wait_for_url(f"**/guides/{index}/**")

    expect(page.locator("h1:visible")).to_contain_text("Fix")
    if "#" in page.url:
        assert page.url.endswith(f"#{name}")
        expect(page.locator(":target")).to_be_in_viewport()
    page.go_back()
    page.wait_for_url("**/index.html")


def test_what_is_pasted_filters_the_list(page: Page) -> None:
    """A message leaves its line alone, and words those that have them."""
    page.goto(INDEX)
    field = page.get_by_label("Paste your message")
    shown = page.locator(LINES).locator("visible=true")
    status = page.get_by_role("status")
    everything = f"{len(SECTIONS)} messages"
    expect(status).to_have_text(everything)
    for message, heading in QUOTED.items():
        field.fill(f"ValueError: {message}")
        expect(shown.filter(has_text=heading)).to_have_count(1)
        assert shown.count() <= 2, message

    table = Path(__file__).parents[1] / "messages.toml"
    for case in tomllib.loads(table.read_text("utf-8"))["case"]:
        field.fill(case["pasted"])
        if heading := case["heading"]:
            expect(shown.filter(has_text=heading)).to_have_count(1)
            assert shown.count() <= 2, case["name"]

    field.fill("MESH axis, 2")
    expect(status).to_have_text(f"{shown.count()} of {everything}")
    assert 1 < shown.count() < 10
    # A part without lines goes; the keyboard gets from the field to a link.
    expect(page.get_by_text("Checkpoints", exact=True)).not_to_be_visible()
    field.press("Tab")
    expect(page.locator(".error-list a:visible").first).to_be_focused()

    field.fill("an unheard-of flurb")
    expect(status).to_contain_text(f"0 of {everything}")
    status.get_by_role("link").click()
    page.wait_for_url("**/search.html?q=an%20unheard-of%20flurb")
    page.go_back()
    expect(page.locator(".error-list li:visible")).to_have_count(0)
    field.fill("")
    expect(shown).to_have_count(len(SECTIONS))


def test_the_list_without_scripts(scriptless: Page) -> None:
    """It is whole, and an old link leads to the line that leads on."""
    scriptless.goto(f"{INDEX}#checkpoints")

    expect(scriptless.locator(".error-filter")).not_to_be_visible()
    expect(scriptless.locator(f"{LINES} >> visible=true")).to_have_count(
        len(SECTIONS)
    )
    expect(scriptless.locator(":target a")).to_be_in_viewport()
