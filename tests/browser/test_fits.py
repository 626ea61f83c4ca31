"""Outputs fit, or scroll where it shows that there is more."""

from playwright.sync_api import Page
from tour import resize

WIDE, PHONE = (1920, 1440, 1280), 390
# The boxes of outputs that are narrower than what is in them. What is in a
# drawing's picture can't be wider than the picture.
OVERFLOWING = """() => [...document.querySelectorAll(".cell")].flatMap(
    (cell, number) => [...cell.querySelectorAll(
        ".cell_output, .cell_output *:not(svg *)"
    )].filter((box) => (
        box.scrollWidth > box.clientWidth
        && box.checkVisibility()
        && getComputedStyle(box).display !== "inline"
    )).map((box) => {
        let scroller = box;
        while (
            scroller !== cell
            && getComputedStyle(scroller).overflowX === "visible"
        ) scroller = scroller.parentElement;
        return {
            cell: number + 1,
            box: box.tagName.toLowerCase() + "." + box.className,
            text: box.textContent.trim().slice(0, 40),
            scrolls: scroller.tabIndex === 0,
            edge: getComputedStyle(scroller).backgroundImage !== "none",
        };
    })
)"""


def test_outputs_fit(visit: Page, page_name: str) -> None:
    """No output is cut off on a desktop, and on a phone wide ones scroll.

    There, a shadow shows that there is more, the keyboard reaches it, and
    the page itself stays where it is.
    """
    for width in WIDE:
        visit.set_viewport_size({"width": width, "height": 900})
        cut = visit.evaluate(OVERFLOWING)

        assert cut == [], f"{page_name} at {width} pixels: {cut[0]}"

    resize(visit, PHONE)
    cut = [
        box
        for box in visit.evaluate(OVERFLOWING)
        if not (box["scrolls"] and box["edge"])
    ]
    assert cut == [], f"{page_name} at {PHONE} pixels: {cut[0]}"
    wide = visit.evaluate("document.documentElement.scrollWidth")
    assert wide <= PHONE, page_name
