"""The search finds pages, without a network."""

import re
from urllib.parse import quote

from bs4 import BeautifulSoup
from messages import QUOTED
from playwright.sync_api import Locator, Page, expect


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


# As a terminal shows them, with names, sizes and line breaks of readers.
PASTED = {
    **QUOTED,
    "Traceback (most recent call last):\n"
    '  File "/home/me/train.py", line 93, in <module>\n'
    "    state = step(state, batch)\n"
    "ValueError: Received incompatible devices for jitted computation. "
    "Got argument kernels['qkv'] of my_step with shape float32[4711] and "
    "device ids [0, 1] on platform CPU": "Received incompatible devices",
    "ValueError: Number of devices 8 must be >= the product\n    of "
    "mesh_shape (4, 4)": "the product of mesh_shape",
    "ValueError: Sharding spec (\u2018dp\u2019,) implies that array axis 0 "
    "is partitioned 8 times, but does not evenly divide the dimension "
    "size 12. Got shape: (12, 130048)": "implies that array axis",
    "ShardingTypeError: Contracting dimensions are sharded and it is "
    "ambiguous how the output should be sharded. Got lhs_contracting_spec="
    "('tp',) and rhs_contracting_spec=('tp',)": "Contracting dimensions",
    "ForbiddenCollectiveError: Collective across axis 'x' is forbidden by "
    "`no_collectives`, but `psum` acts on axis 'x'.": "is forbidden by",
    "ValueError: Resource axis: modle of P('modle',) is not found in mesh: "
    "('dp', 'tp').": "is not found in mesh",
    "RuntimeError: Array has been deleted with shape=float32[64,256].": (
        "Array has been deleted"
    ),
    "JaxRuntimeError: RESOURCE_EXHAUSTED: Out of memory allocating "
    "4503599627370496 bytes.": "Out of memory",
    "TypeError: scan body function carry input and carry output must have "
    "equal types, but they differ:\n\nThe input carry c has type int32[] "
    "but the corresponding output carry component has type "
    "int32[]{V:dp}, so the manual axis types do not match.": (
        "manual axis types"
    ),
    "TraceContextError: Cannot mutate Param from a different trace level": (
        "different trace level"
    ),
}
# What people type, and where it leads: the end of an address.
WORDS = {
    # The field.
    "rank": "glossary.html#term-rank",
    "OOM": "glossary.html#term-OOM",
    "ZeRO": "glossary.html#term-ZeRO",
    "DTensor": "glossary.html#term-DTensor",
    "tensor parallel": "glossary.html#term-tensor-parallelism",
    "unreduced": "glossary.html#term-unreduced",
    "remat": "glossary.html#term-remat",
    "gradient checkpointing": "glossary.html",
    "FSDP": "glossary.html#term-FSDP",
    "DDP": "data_parallel_step.html",
    "EMA": "average_weights.html",
    "LoRA": "state_zero_kernel.html#a-substring-for-a-name",
    "Megatron": "megatron_mlp.html",
    "golden file": "guides/ci.html",
    "snapshot": "guides/ci.html",
    # Names of the API.
    "with_partitioning": "partitioned_kernel_shape.html",
    "nnx.update": "split_merge_round_trip.html#on-eight-devices",
    "no_collectives": "errors.html#is-forbidden-by-no-collectives",
    "shardbook.layout": "tools.html#shardbook.layout",
    "fsdp_step": "problems/fsdp_step.html",
    # Questions, and a name of the reader's own.
    "how do I shard my model": "recipe.html",
    "with_partitioning my_flurb_step": "partitioned_kernel_shape.html",
    "unhashable type: 'BatchStat'": "#specs-of-another-form",
}
# What no page teaches. Where one does, the search is to find it.
UNTAUGHT = (
    "MoE",
    "mixture of experts",
    "expert parallel",
    "pipeline parallelism",
    "context parallel",
    "ring attention",
    "gradient accumulation",
)


def found(page: Page, words: str) -> Locator:
    """Search, and give the links of what is found."""
    page.goto(f"search.html?q={quote(words)}")
    expect(page.locator(".search-summary")).not_to_be_empty()
    return page.locator("#search-results li a")


def test_a_pasted_message_leads_to_its_section(page: Page) -> None:
    """With its own names and numbers, to the heading, and first of all."""
    for message, heading in PASTED.items():
        first = found(page, message).first
        expect(first).to_contain_text(heading)
        expect(first).to_have_attribute(
            "href", re.compile("guides/errors.html#.")
        )
    first.click()
    expect(page.locator(":target")).to_be_in_viewport()


def test_what_people_type_leads_to_its_page(page: Page) -> None:
    """Words of the field, names of the API, and questions."""
    for words, address in WORDS.items():
        expect(found(page, words).first).to_have_attribute(
            "href", re.compile(f"{re.escape(address)}$")
        )
    expect(
        found(page, "tensor parallel").and_(
            page.locator("[href$='megatron_mlp.html']")
        )
    ).to_be_visible()


def test_what_no_page_teaches_leads_nowhere(
    page: Page, soups: dict[str, BeautifulSoup]
) -> None:
    """It says which word is missing, and offers the others alone."""
    texts = [" ".join(soup.get_text().split()) for soup in soups.values()]
    for words in UNTAUGHT:
        if not any(words in text for text in texts):
            expect(found(page, words)).to_have_count(0)
    found(page, "flurbs parallelism")

    said = page.locator(".search-summary")
    expect(said).to_contain_text("No page has \u201cflurbs\u201d")
    said.get_by_text("parallelism").click()
    expect(page.locator("#search-results li").first).to_be_visible()


def test_a_result_shows_the_words_of_its_page(page: Page) -> None:
    """The sentence that was looked for, not the menu above it."""
    found(page, "low-rank matrices")
    text = page.locator("#search-results p.context").first

    expect(text).to_contain_text("the two low-rank matrices of a LoRA")
