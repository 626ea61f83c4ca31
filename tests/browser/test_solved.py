"""The browser remembers which problems are solved."""

import re

from playwright.sync_api import Page, expect

from shardbook.problems import NAMES


def test_a_solved_problem_is_marked_on_the_map(page: Page) -> None:
    """What is ticked on a page shows on its line, until it is not."""
    first, second = NAMES[:2]
    page.goto(f"problems/{first}.html")
    box = page.get_by_role("checkbox", name="I have solved it")
    expect(box).not_to_be_checked()
    box.check()
    page.goto("index.html")
    lines = page.locator(".problem-map li")

    for name, seen in ((first, True), (second, False)):
        mark = lines.filter(has=page.locator(f"[data-name={name}]"))
        expect(mark.get_by_text("Solved")).to_be_visible(visible=seen)

    expect(page.locator(".solved-count")).to_have_text(
        f"1 of {len(NAMES)} solved"
    )
    menu = page.locator(f".bd-links a[href$='{first}.html']")
    expect(menu).to_have_class(re.compile("is-solved"))
    page.goto(f"problems/{first}.html")
    expect(box).to_be_checked()
    box.uncheck()
    page.goto("index.html")
    expect(page.get_by_text("Solved", exact=True).first).to_be_hidden()


def test_the_terminal_brings_what_it_has_noted(page: Page) -> None:
    """It is added to what is ticked, and the address loses it."""
    first, second, third, *_ = NAMES
    page.goto(f"problems/{first}.html")
    page.get_by_role("checkbox", name="I have solved it").check()
    page.goto("about:blank")
    page.goto(f"problems/{second}.html#solved={second},{third},no_such,map")
    box = page.get_by_role("checkbox", name="I have solved it")
    expect(box).to_be_checked()
    expect(page).to_have_url(re.compile(rf"/problems/{second}\.html$"))

    assert page.evaluate(
        "JSON.parse(localStorage['shardbook-solved'])"
    ) == [
        first,
        second,
        third,
    ]
    page.goto("index.html#solved=")
    expect(page.locator(".solved-count")).to_have_text(
        f"3 of {len(NAMES)} solved"
    )
    page.goto(f"problems/{first}.html#problem")
    expect(page.locator("#problem h2")).to_be_in_viewport()
    expect(page).to_have_url(re.compile("#problem$"))


def test_problems_are_numbered_as_in_the_terminal(page: Page) -> None:
    """In the menu, above each page and on the map, over all parts."""
    last = len(NAMES)
    page.goto(f"problems/{NAMES[-1]}.html")
    expect(page.locator("h1:visible")).to_contain_text(f"{last}. ")
    page.goto("index.html")
    menu = page.locator(".bd-links a[href^='problems/']")
    texts = menu.all_text_contents()

    assert [int(text.split(".")[0]) for text in texts] == [
        *range(1, last + 1)
    ]
