"""The browser remembers which problems are solved."""

from playwright.sync_api import Page, expect

from shardbook.problems import NAMES


def test_a_solved_problem_is_marked_on_the_map(page: Page) -> None:
    """What is ticked on a page shows on its card, until it is not."""
    first, second = NAMES[:2]
    page.goto(f"problems/{first}.html")
    box = page.get_by_role("checkbox", name="I have solved it")
    expect(box).not_to_be_checked()
    box.check()
    page.goto("index.html")
    cards = page.locator(".problem-map li")

    for name, seen in ((first, True), (second, False)):
        mark = cards.filter(has=page.locator(f"[data-name={name}]"))
        expect(mark.get_by_text("Solved")).to_be_visible(visible=seen)

    page.goto(f"problems/{first}.html")
    expect(box).to_be_checked()
    box.uncheck()
    page.goto("index.html")
    expect(page.get_by_text("Solved", exact=True).first).to_be_hidden()
