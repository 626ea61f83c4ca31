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


def test_a_word_that_is_nowhere(page: Page) -> None:
    """The search says that it found nothing."""
    page.goto("search.html?q=qwertyuiop")

    expect(page.locator("#search-results")).to_contain_text("did not match")


@pytest.mark.parametrize(
    ("words", "page_found"),
    [
        ("Buffer has been deleted or donated", "split_merge_round_trip"),
        ("unhashable type: 'BatchStat'", "tree_mode_shard_map"),
        ("Resource axis: modle is not found in mesh", "explorer"),
        ("jax.device_put", "state_to_sharded_layout"),
        ("nnx.update", "split_merge_round_trip"),
    ],
)
def test_an_error_or_an_api_leads_to_its_page(
    page: Page, words: str, page_found: str
) -> None:
    """As it is pasted from a terminal, or written in code."""
    page.goto(f"search.html?q={quote(words)}")
    found = page.locator(f"#search-results a[href*={page_found}]")

    expect(found.first).to_be_visible()
