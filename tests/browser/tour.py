"""A window that goes from page to page, and asks each for all at once."""

from playwright.sync_api import Page

DESKTOP = {"width": 1280, "height": 900}
# Each fold, and by its first answer each question.
OPEN = """() => {
    for (const answer of document.querySelectorAll(
        ".predict li:first-child input"
    )) answer.click();
    for (const fold of document.querySelectorAll("details")) {
        fold.open = true;
    }
}"""


def resize(page: Page, width: int) -> None:
    """Make a window as wide, and let the page find out."""
    page.set_viewport_size({"width": width, "height": 800})
    # The theme looks a moment later for what the keyboard is to reach.
    page.wait_for_timeout(400)


class Tour:
    """Stays on a page until another one is visited; notes what it loads.

    Attributes:
        page: The window.
    """

    def __init__(self, page: Page) -> None:
        self.page = page
        self._at = ""
        self._kinds: dict[str, tuple[str, str]] = {}
        self._kib: dict[str, float] = {}
        network = page.context.new_cdp_session(page)
        network.on("Network.responseReceived", self._response)
        network.on("Network.loadingFinished", self._end)
        network.send("Network.enable")
        network.send("Network.setCacheDisabled", {"cacheDisabled": True})

    def _response(self, event: dict) -> None:
        url = event["response"]["url"]
        if not url.startswith("data:"):
            name = url.split("?")[0].rpartition("/")[2]
            self._kinds[event["requestId"]] = (name, event["type"])

    def _end(self, event: dict) -> None:
        self._kib[event["requestId"]] = event["encodedDataLength"] / 1024

    def visit(self, address: str) -> None:
        """Load a page, if it isn't there, and open all that opens."""
        self.page.set_viewport_size(DESKTOP)
        self.page.emulate_media(
            color_scheme="light", reduced_motion="reduce"
        )
        if self._at != address:
            self._at = ""
            self._kinds.clear()
            self._kib.clear()
            self.page.goto(address)
            self.page.evaluate(OPEN)
            self._at = address

    def files(self) -> list[tuple[str, str, float]]:
        """List the name, the kind and the KiB of all that the page loads.

        That of other widths and colors counts too.
        """
        self.page.wait_for_load_state("networkidle")
        return [
            (*kind, self._kib[request])
            for request, kind in self._kinds.items()
        ]
