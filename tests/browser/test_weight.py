"""A page moves little: what it shows, and no more."""

from dataclasses import dataclass

import pytest
from playwright.sync_api import Page

KIB, REQUESTS = 150, 20
SEARCH = {"language_data.js", "searchindex.js", "searchtools.js"}


@dataclass
class Request:
    """A request: the file that it loads, and its size."""

    name: str
    kind: str
    kib: float = 0.0


def requests(page: Page, name: str) -> list[Request]:
    """Open a page as if for the first time, and note what is sent."""
    found: dict[str, Request] = {}

    def response(event: dict) -> None:
        url = event["response"]["url"]
        if not url.startswith("data:"):
            last = url.split("?")[0].rpartition("/")[2]
            found[event["requestId"]] = Request(last, event["type"])

    def end(event: dict) -> None:
        if event["requestId"] in found:
            kib = event["encodedDataLength"] / 1024
            found[event["requestId"]].kib = kib

    network = page.context.new_cdp_session(page)
    network.on("Network.responseReceived", response)
    network.on("Network.loadingFinished", end)
    network.send("Network.enable")
    network.send("Network.setCacheDisabled", {"cacheDisabled": True})
    page.goto(name, wait_until="networkidle")
    network.detach()
    return list(found.values())


def test_a_page_is_light(page: Page, page_name: str) -> None:
    """A page is small, compressed and with its pictures.

    It loads no font, and the search on the page of the search alone.
    """
    found = requests(page, page_name)
    kib = sum(request.kib for request in found)
    scripts = {request.name for request in found}
    searches = SEARCH if page_name == "search.html" else set()

    assert 0 < kib <= KIB, found
    assert len(found) <= REQUESTS, found
    assert scripts & SEARCH == searches
    assert [request for request in found if request.kind == "Font"] == []


@pytest.mark.parametrize("width", [320, 1280])
def test_every_icon_is_drawn(
    page: Page, page_name: str, width: int
) -> None:
    """icons.css draws each icon that the theme names on a page."""
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(page_name)
    icons = page.evaluate(
        """() => [...document.querySelectorAll('[class*="fa-"]')].map(
            (icon) => [
                icon.className,
                getComputedStyle(icon, "::before").maskImage,
            ],
        )"""
    )

    assert icons
    assert [name for name, picture in icons if "url(" not in picture] == []
