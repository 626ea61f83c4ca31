"""A page moves little: what it shows, and no more."""

from dataclasses import dataclass

import pytest
from playwright.sync_api import Page

KIB, REQUESTS = 150, 12
SEARCH = {"language_data.js", "searchindex.js", "searchtools.js"}


@dataclass
class Request:
    """What was sent for one request."""

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


def test_a_page_is_light(page: Page, pages: list[str]) -> None:
    """Compressed, with its pictures, it is small, in few requests."""
    for name in pages:
        found = requests(page, name)
        kib = sum(request.kib for request in found)

        assert kib > 0, name
        assert kib <= KIB, (name, found)
        assert len(found) <= REQUESTS, (name, found)


def test_only_the_search_loads_the_search(
    page: Page, pages: list[str]
) -> None:
    """No page has a script that it does not use, nor a font."""
    for name in pages:
        found = requests(page, name)
        scripts = {r.name for r in found if r.kind == "Script"}
        searches = SEARCH if name == "search.html" else set()

        assert scripts & SEARCH == searches, name
        assert [r for r in found if r.kind == "Font"] == [], name


@pytest.mark.parametrize("width", [320, 1280])
def test_every_icon_is_drawn(
    page: Page, pages: list[str], width: int
) -> None:
    """Each icon that the theme names is among ours."""
    page.set_viewport_size({"width": width, "height": 800})
    for name in pages:
        page.goto(name)
        icons = page.evaluate(
            """() => [...document.querySelectorAll('[class*="fa-"]')].map(
                (icon) => [
                    icon.className,
                    getComputedStyle(icon, "::before").maskImage,
                ],
            )"""
        )

        assert icons, name
        for icon, picture in icons:
            assert picture.startswith("url("), (name, icon)
