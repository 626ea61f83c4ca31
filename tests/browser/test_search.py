"""The search finds pages, without a network."""

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

    expect(page.locator("h1:visible")).to_contain_text("with_partitioning")


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


def test_a_result_shows_the_text_of_its_page(page: Page) -> None:
    """Not the buttons above the text, nor the contents."""
    page.goto("search.html?q=out+of+memory")
    texts = page.locator("#search-results p.context")
    expect(texts.nth(5)).to_be_visible()

    for text in texts.all_text_contents():
        assert "Notebook, executed" not in text
        assert not text.strip(" .\n").startswith("Contents")
