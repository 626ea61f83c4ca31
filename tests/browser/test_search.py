"""The search finds pages, without a network."""

import re
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect


def test_a_word_leads_to_its_page(page: Page) -> None:
    """From any page: by a key, a word, and the link that it finds."""
    page.goto("reference/index.html")
    page.keyboard.press("Control+k")
    page.keyboard.type("with_partitioning")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search.html?q=with_partitioning")
    found = page.locator("#search-results a[href*=partitioned_kernel]")
    expect(found.first).to_be_visible()
    found.first.click()

    expect(page.locator("h1:visible")).to_contain_text("Annotate a kernel")


@pytest.mark.parametrize(
    ("words", "page_found"),
    [
        # Errors, as they are pasted from a terminal.
        ("Buffer has been deleted or donated", "guides/errors"),
        ("unhashable type: 'BatchStat'", "tree_mode"),
        ("Resource axis: modle is not found in mesh", "explorer"),
        ("ShardingTypeError", ".html"),
        # Names of the API.
        ("jax.device_put", "state_to_sharded_layout"),
        ("nnx.update", "split_merge_round_trip"),
        # What a page is about, in words that it may not have.
        ("tensor parallel", "megatron_mlp"),
        ("FSDP", ".html"),
        ("ZeRO", ".html"),
    ],
)
def test_what_people_type(page: Page, words: str, page_found: str) -> None:
    """Errors, names of the API and of methods lead to a page."""
    page.goto(f"search.html?q={quote(words)}")
    found = page.locator(f"#search-results li a[href*='{page_found}']")

    expect(found.first).to_be_visible()


@pytest.mark.parametrize(
    ("message", "section"),
    [
        (
            "ValueError: Received incompatible devices for jitted "
            "computation. Got argument kernels['qkv'] of my_step with "
            "shape float32[4711] and device ids [0, 1] on platform CPU",
            "#received-incompatible-devices-for-jitted-computation",
        ),
        # As an older version said it.
        (
            "ValueError: One of pjit arguments was given the sharding of "
            "NamedSharding(mesh=Mesh('dp': 8)), which implies that the "
            "global size of its dimension 0 should be divisible by 8, but "
            "it is equal to 12 (full shape: (12, 130048))",
            "#implies-that-array-axis",
        ),
        (
            "ForbiddenCollectiveError: Collective across axis 'x' is "
            "forbidden by `no_collectives`, but `psum` acts on axis 'x'.",
            "#is-forbidden-by-no-collectives",
        ),
    ],
)
def test_a_pasted_message_leads_to_its_section(
    page: Page, message: str, section: str
) -> None:
    """With its own names and numbers, to the heading, and first of all."""
    page.goto(f"search.html?q={quote(message)}")
    first = page.locator("#search-results li a").first

    expect(first).to_have_attribute(
        "href", re.compile(f"guides/errors.html{section}$")
    )
    first.click()
    expect(page.locator(section)).to_be_in_viewport()


def test_words_that_no_page_has_are_left_out(page: Page) -> None:
    """One name of the reader's own does not hide what is there."""
    page.goto("search.html?q=with_partitioning+my_flurb_step")
    found = page.locator("#search-results li a[href*=partitioned_kernel]")

    expect(found.first).to_be_visible()


def test_a_result_shows_the_text_of_its_page(page: Page) -> None:
    """Not the buttons above the text, nor the contents."""
    page.goto("search.html?q=out+of+memory")
    texts = page.locator("#search-results p.context")
    expect(texts.nth(5)).to_be_visible()

    for text in texts.all_text_contents():
        assert "Notebook, executed" not in text
        assert not text.strip(" .\n").startswith("Contents")
