"""Every page opens, at every width, in the light and in the dark."""

import pytest
from playwright.sync_api import Page


@pytest.mark.parametrize("width", [320, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_is_wider_than_the_window(
    page: Page, pages: list[str], width: int, scheme: str
) -> None:
    """What is wide scrolls inside itself."""
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 800})
    for name in pages:
        page.goto(name)
        wide = page.evaluate("document.documentElement.scrollWidth")

        assert wide <= width, name
