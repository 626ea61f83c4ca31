"""Everyone can read the book: whatever they see, use, or prefer."""

from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, Route, expect

# All that axe-core looks for by itself, and one rule more that is still on
# trial there: names of buttons that differ from the words on them.
AXE = {
    "resultTypes": ["violations"],
    "rules": {"label-content-name-mismatch": {"enabled": True}},
}
# A problem's page with all that there is, folds, tables and drawings.
PROBLEM = "problems/split_merge_round_trip.html"
# How an element, or one around or within it, shows that the keyboard is on
# it.
RING = """() => {
    const focus = document.activeElement;
    const ring = (element) => {
        const style = getComputedStyle(element);
        return (
            (style.outlineStyle !== "none" && style.outlineWidth !== "0px")
            || style.boxShadow !== "none"
        );
    };
    const near = [focus, focus.parentElement, ...focus.children];
    const box = focus.getBoundingClientRect();
    return {
        name: focus.tagName.toLowerCase() + "." + focus.className,
        seen: box.width > 0 && getComputedStyle(focus).opacity > 0.5,
        ring: near.some(ring),
    };
}"""


@pytest.mark.parametrize("width", [320, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(
    page: Page, page_name: str, width: int, scheme: str
) -> None:
    """A page has no violation of any level, best practices included."""
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(page_name)
    result = Axe().run(page, options=AXE)

    assert result.violations_count == 0, result.generate_report()


# 640 pixels are what 1280 show at 200 %.
@pytest.mark.parametrize("width", [320, 640, 1280])
def test_no_page_is_wider_than_the_window(
    page: Page, page_name: str, width: int
) -> None:
    """A page is no wider than the window; what is wide scrolls in it."""
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(page_name)
    wide = page.evaluate("document.documentElement.scrollWidth")

    assert wide <= width


def tab_through(page: Page) -> list[dict[str, Any]]:
    """Press Tab until the end of the page."""
    stops = []
    while True:
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement === document.body"):
            return stops
        stops.append(page.evaluate(RING))
        assert len(stops) < 2000, "the keyboard is caught"


@pytest.mark.parametrize("width", [390, 1280])
def test_the_keyboard_gets_everywhere(page: Page, width: int) -> None:
    """Tab stops at every control, and each shows that it is there."""
    page.emulate_media(reduced_motion="reduce")
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(PROBLEM)
    stops = tab_through(page)
    names = " ".join(stop["name"] for stop in stops)

    for part in (
        "search-button",
        "theme-switch-button",
        "primary-toggle",
        "dropdown-toggle",
        "summary",
        "copybtn",
        "right-next",
    ):
        assert part in names, part
    assert [stop for stop in stops if not stop["ring"]] == []
    assert [stop for stop in stops[1:] if not stop["seen"]] == []


def test_the_first_stop_leads_past_the_navigation(page: Page) -> None:
    """The first link of a page is the one to what the page is about."""
    page.goto(PROBLEM)
    page.keyboard.press("Tab")
    expect(page.get_by_text("Skip to main content")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")

    assert page.evaluate(
        "document.querySelector('main').contains(document.activeElement)"
    )


def test_enter_opens_and_closes_a_fold(page: Page) -> None:
    """A hint is read without a mouse."""
    page.goto(PROBLEM)
    fold = page.locator("details.admonition").first
    fold.locator("summary").focus()
    assert fold.get_attribute("open") is None
    page.keyboard.press("Enter")
    assert fold.get_attribute("open") is not None
    page.keyboard.press("Enter")
    assert fold.get_attribute("open") is None


def test_the_contents_open_on_a_phone(page: Page) -> None:
    """The keyboard opens the contents, and Escape closes them."""
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto(PROBLEM)
    link = page.locator("nav.bd-docs-nav a").first
    expect(link).not_to_be_visible()
    page.locator(".primary-toggle").focus()
    page.keyboard.press("Enter")
    expect(link).to_be_visible()
    page.keyboard.press("Escape")
    expect(link).not_to_be_visible()


def test_a_theme_is_chosen_and_remembered(page: Page) -> None:
    """The keyboard chooses light or dark, on one page for all pages."""
    page.emulate_media(color_scheme="light")
    page.goto("index.html")
    paper = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(paper)
    page.locator(".theme-switch-button").focus()
    page.keyboard.press("Enter")
    dark = page.locator(".theme-change-button[data-mode=dark]")
    expect(dark).to_be_visible()
    dark.focus()
    page.keyboard.press("Enter")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.goto(PROBLEM)

    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    assert page.evaluate(paper) != light


def test_the_system_decides_before_anything_is_drawn(page: Page) -> None:
    """A dark page is not white while its scripts load."""
    page.emulate_media(color_scheme="dark")
    waiting: list[Route] = []
    page.route("**/*.js*", lambda route: waiting.append(route))
    page.goto(PROBLEM, wait_until="commit")

    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    assert waiting
    for route in waiting:
        route.continue_()


def test_reduced_motion(page: Page, page_name: str) -> None:
    """Nothing on a page moves for those who ask for that."""
    page.emulate_media(reduced_motion="reduce")
    page.goto(page_name)
    moving = page.evaluate(
        """() => [...document.querySelectorAll("*")].filter((each) => {
            const style = getComputedStyle(each);
            return (
                /[1-9]/.test(style.transitionDuration)
                || style.animationName !== "none"
                || style.scrollBehavior !== "auto"
            );
        }).map((each) => each.outerHTML.slice(0, 80))"""
    )

    assert moving == []


def test_print(page: Page) -> None:
    """Paper has the text, dark on white, and no controls.

    A fold is printed as it is on the screen: who wants a solution on paper
    opens it, and no one gets it unasked.
    """
    page.emulate_media(color_scheme="dark")
    page.goto(PROBLEM)
    solution = page.locator("details.admonition").last
    solution.locator("summary").click()
    page.emulate_media(color_scheme="dark", media="print")

    expect(page.locator("html")).to_have_attribute("data-theme", "light")
    for part in (
        "nav.bd-docs-nav",
        ".search-button",
        ".theme-switch-button",
        ".bd-sidebar-secondary",
        ".prev-next-area",
        ".copybtn >> nth=0",
        "#pst-back-to-top",
    ):
        expect(page.locator(part)).not_to_be_visible()
    folds = page.locator("details.admonition")
    expect(folds.first.locator("p, div").last).not_to_be_visible()
    expect(solution.locator("pre")).to_be_visible()
    page.emulate_media(color_scheme="dark", media="screen")

    expect(page.locator("html")).to_have_attribute("data-theme", "dark")


def test_without_scripts(browser: Browser, site: str) -> None:
    """A printed page is all there, in its colors, with open folds."""
    context = browser.new_context(base_url=site, java_script_enabled=False)
    page = context.new_page()
    page.goto(PROBLEM)
    fold = page.locator("details.admonition").first
    fold.locator("summary").click()

    expect(fold.locator("p").last).to_be_visible()
    expect(page.locator("html")).to_have_attribute("data-theme", "light")
    for dead in (
        ".search-button-field",
        ".theme-switch-button",
        ".primary-toggle",
        ".dropdown-download-buttons",
    ):
        expect(page.locator(dead)).not_to_be_visible()
    context.close()
