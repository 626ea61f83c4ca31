"""A page moves little: what it shows, and no more."""

from pathlib import Path

from playwright.sync_api import Page

KIB, REQUESTS = 170, 10
# The page of the search has the text of all others.
SEARCH_KIB = 320
SEARCH = {"language_data", "search", "searchindex", "searchtools"}
# Scripts, and what a page that loads one has.
PARTS = {"explorer": "shardbook-explorer", "predict": "predict"}


def test_a_page_is_light(page: Page, html: Path, page_name: str) -> None:
    """A page is small, compressed and with its pictures.

    It loads no font, the search on the page of the search alone, and
    scripts where there is something to do for them.
    """
    kinds: dict[str, tuple[str, str]] = {}
    kib: dict[str, float] = {}

    def response(event: dict) -> None:
        url = event["response"]["url"]
        if not url.startswith("data:"):
            name = url.split("?")[0].rpartition("/")[2]
            kinds[event["requestId"]] = (name, event["type"])

    def end(event: dict) -> None:
        kib[event["requestId"]] = event["encodedDataLength"] / 1024

    network = page.context.new_cdp_session(page)
    network.on("Network.responseReceived", response)
    network.on("Network.loadingFinished", end)
    network.send("Network.enable")
    network.send("Network.setCacheDisabled", {"cacheDisabled": True})
    page.goto(page_name, wait_until="networkidle")
    # A file of several scripts has the names of all.
    names = {part for name, _ in kinds.values() for part in name.split(".")}
    text = (html / page_name).read_text("utf-8")

    is_search = page_name == "search.html"
    limit = SEARCH_KIB if is_search else KIB
    assert 0 < sum(kib[request] for request in kinds) <= limit, kinds
    assert len(kinds) <= REQUESTS, kinds
    assert "Font" not in {kind for _, kind in kinds.values()}
    assert names & SEARCH == ({"search"} if is_search else set())
    for script, part in PARTS.items():
        assert (script in names) == (f'class="{part}"' in text), script
