"""Everyone can read the book: whatever they see, use, or prefer."""

from typing import Any

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, Route, expect
from tour import resize

# All that axe-core looks for by itself, and one rule more that is still on
# trial there: names of buttons that differ from the words on them.
OPTIONS = {
    "resultTypes": ["violations"],
    "rules": {"label-content-name-mismatch": {"enabled": True}},
}
# The contrast of a text is that of its color, size and weight on what lies
# under it. Most words of code share these, and comparing all took axe-core
# three quarters of its time. So it gets one text of each kind, and those
# before it that it doesn't judge: a single letter, or what one has to
# scroll to.
ONE_OF_EACH = """{
    const seen = new Set();
    const walk = (element, around, left, right) => {
        const style = getComputedStyle(element);
        const box = element.getBoundingClientRect();
        const under = [
            around, style.backgroundColor, style.backgroundImage,
            style.opacity,
        ].join();
        const kind = [
            element.getAttribute("class"), style.color, style.fontSize,
            style.fontWeight, style.textShadow, under,
        ].join();
        if (style.overflowX !== "visible") {
            left = Math.max(left, box.left);
            right = Math.min(right, box.right);
        }
        const text = [...element.childNodes].filter(
            (node) => node.nodeType === Node.TEXT_NODE
        ).map((node) => node.data).join("").trim();
        const isNew = text && !seen.has(kind) && element.checkVisibility();
        element.toggleAttribute("data-of-its-kind", Boolean(isNew));
        if (
            isNew && text.length > 1
            && left <= box.left && box.right <= right
        ) seen.add(kind);
        for (const child of element.children) {
            walk(child, under, left, right);
        }
    };
    walk(document.body, "", 0, innerWidth);
    axe.configure({
        rules: [{ id: "color-contrast", selector: "[data-of-its-kind]" }],
    });
}"""
AXE = Axe(AXE_SCRIPT + ONE_OF_EACH)
# A problem's page with all that there is, folds, tables and drawings.
PROBLEM = "problems/split_merge_round_trip.html"
# How an element, or one around or within it, shows that the keyboard is on
# it.
RING = """() => {
    const focus = document.activeElement;
    if (focus === document.body) return null;
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
# The icons that icons.css does not draw.
UNDRAWN = """[...document.querySelectorAll('[class*="fa-"]')].filter(
    (icon) => !getComputedStyle(icon, "::before").maskImage.includes("url(")
).map((icon) => icon.className)"""
MOVING = """[...document.querySelectorAll("*")].filter((each) => {
    const style = getComputedStyle(each);
    return (
        /[1-9]/.test(style.transitionDuration)
        || style.animationName !== "none"
        || style.scrollBehavior !== "auto"
    );
}).map((each) => each.outerHTML.slice(0, 80))"""


@pytest.mark.parametrize(
    # 640 pixels are what 1280 show at 200 %.
    ("widths", "scheme"),
    [
        pytest.param((640, 320), "light", id="light"),
        pytest.param(
            (1280,),
            "dark",
            id="dark",
            marks=pytest.mark.exhaustive("pages share their colors"),
        ),
    ],
)
def test_a_page(visit: Page, widths: tuple[int, ...], scheme: str) -> None:
    """A page has no violation of any level, with all that opens open.

    It is no wider than the window, has all its icons, and nothing moves
    for those who ask for that.
    """
    visit.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    for size in widths:
        resize(visit, size)
        wide = visit.evaluate("document.documentElement.scrollWidth")
        assert wide <= size
    expect(visit.locator("html")).to_have_attribute("data-theme", scheme)
    result = AXE.run(visit, options=OPTIONS)

    assert result.violations_count == 0, result.generate_report()
    assert visit.evaluate(UNDRAWN) == []
    assert visit.evaluate(MOVING) == []


@pytest.mark.parametrize("name", [PROBLEM, "costs.html"])
@pytest.mark.parametrize("width", [390, 1280])
def test_the_keyboard_gets_everywhere(
    page: Page, name: str, width: int
) -> None:
    """Tab stops at every control, and each shows that it is there."""
    page.emulate_media(reduced_motion="reduce")
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(name)
    stops: list[dict[str, Any]] = []
    while True:
        page.keyboard.press("Tab")
        stop = page.evaluate(RING)
        if stop is None:
            break
        stops.append(stop)
        assert len(stops) < 2000, "the keyboard is caught"
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


def test_a_line_leads_to_its_problem(page: Page) -> None:
    """A click anywhere on it does, and the menu shows its part alone."""
    page.goto("index.html")
    lines = page.locator(".problem-map li")
    title = lines.last.locator("a").first.inner_text()
    # The link of the title lies over the line.
    lines.last.locator("p").nth(1).click(force=True)

    expect(page.locator("h1:visible")).to_contain_text(title)
    menu = page.locator(".bd-links a[href*='.html']", has_text="1. Make")
    expect(menu).to_be_hidden()
    expect(page.locator(".bd-links .current.active > a")).to_be_visible()
    page.locator(".problem-facts a", has_text="Go to the problem").click()
    expect(page.locator("#problem h2")).to_be_in_viewport()
    needed = page.locator(".problem-facts a").first
    title = needed.inner_text()
    needed.click()
    expect(page.locator("h1:visible")).to_contain_text(title)


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


def test_print(page: Page) -> None:
    """Paper has the text, dark on white, and no controls.

    A fold is printed as it is on the screen: who wants a solution on paper
    opens it, and no one gets it unasked.
    """
    page.emulate_media(color_scheme="dark")
    page.goto(PROBLEM)
    folds = page.locator("details.admonition")
    folds.last.locator("summary").click()
    page.emulate_media(color_scheme="dark", media="print")

    expect(page.locator("html")).to_have_attribute("data-theme", "light")
    for part in (
        "nav.bd-docs-nav",
        ".theme-switch-button",
        ".bd-sidebar-secondary",
        ".prev-next-area",
        ".copybtn >> nth=0",
    ):
        expect(page.locator(part)).not_to_be_visible()
    expect(folds.first.locator("p, div").last).not_to_be_visible()
    expect(folds.last.locator("pre")).to_be_visible()
    answer = page.locator(".predict-outcome .cell_output").first
    expect(answer).to_be_visible()


def test_without_scripts(scriptless: Page) -> None:
    """A page is all there, in its colors; what is dead is not shown."""
    scriptless.goto(PROBLEM)
    for kind in ("details.admonition", "details.predict-outcome"):
        fold = scriptless.locator(kind).first
        fold.locator("summary").click()
        expect(fold.locator("p").last).to_be_visible()

    expect(scriptless.locator("html")).to_have_attribute(
        "data-theme", "light"
    )
    for dead in (
        ".search-button-field",
        ".theme-switch-button",
        ".primary-toggle",
        ".dropdown-download-buttons",
        ".predict input >> nth=0",
    ):
        expect(scriptless.locator(dead)).not_to_be_visible()
