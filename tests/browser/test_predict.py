"""A question is answered by mouse, by keyboard, and without a script."""

from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Locator, Page, expect

from shardbook.problems import NAMES

# A page with questions.
PAGE = "problems/split_merge_round_trip.html"


@pytest.fixture
def question(page: Page) -> Locator:
    """Return the first question of a page."""
    page.goto(PAGE)
    return page.locator(".predict").first


def outcome_of(question: Locator) -> Locator:
    """Give the fold of a question."""
    return question.locator("xpath=following-sibling::div[1]//details")


@pytest.mark.parametrize("name", NAMES)
def test_every_problem_asks(html: Path, name: str) -> None:
    """The page of a problem has two to four questions."""
    text = (html / "problems" / f"{name}.html").read_text("utf-8")

    assert 2 <= text.count('class="predict"') <= 4


def test_every_right_answer_opens_its_fold(page: Page, asking: str) -> None:
    """A right answer shows the verdict, the reason and the output."""
    page.goto(asking)
    for question in page.locator(".predict").all():
        fold = outcome_of(question)
        expect(fold).not_to_have_attribute("open", "")
        reason = fold.locator(".predict-reason").text_content().strip()
        question.locator("[value=right]").click()

        expect(fold).to_have_attribute("open", "")
        expect(fold.locator(".cell_output")).to_be_visible()
        said = question.get_by_role("status").text_content()
        assert said.startswith("Right.")
        assert reason in said


def test_another_answer(question: Locator) -> None:
    """A wrong answer is called wrong, and can be changed."""
    status = question.get_by_role("status")
    question.locator("[value=wrong]").first.click()
    expect(status).to_contain_text("Wrong.")
    question.locator("[value=right]").click()

    expect(status).to_contain_text("Right.")
    expect(status).not_to_contain_text("Wrong.")


def test_the_fold_can_be_closed_again(question: Locator) -> None:
    """Nothing but an answer opens it."""
    fold = outcome_of(question)
    question.locator("[value=right]").click()
    fold.locator("summary").click()
    expect(fold).not_to_have_attribute("open", "")
    fold.locator("summary").click()

    expect(fold).to_have_attribute("open", "")


def test_by_keyboard(page: Page, question: Locator) -> None:
    """Arrows pass the answers without a verdict; Enter gives it."""
    fold, status = outcome_of(question), question.get_by_role("status")
    question.locator("input").first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(question.locator("input").nth(2)).to_be_checked()
    expect(status).to_be_empty()
    expect(fold).not_to_have_attribute("open", "")
    page.keyboard.press("Enter")

    expect(status).not_to_be_empty()
    expect(fold).to_have_attribute("open", "")


def test_space_answers(page: Page, question: Locator) -> None:
    """Space checks the answer that has the focus, and gives the verdict."""
    question.locator("input").first.focus()
    page.keyboard.press("Space")

    expect(question.locator("input").first).to_be_checked()
    expect(question.get_by_role("status")).not_to_be_empty()


def test_tab_leads_to_the_fold(page: Page, question: Locator) -> None:
    """Opened by keyboard, it judges the answer that was chosen."""
    summary = outcome_of(question).locator("summary")
    question.locator("input").first.focus()
    page.keyboard.press("ArrowDown")
    for _ in range(5):
        page.keyboard.press("Tab")
        if summary.evaluate("node => node === document.activeElement"):
            break
    page.keyboard.press("Enter")

    expect(question.get_by_role("status")).not_to_be_empty()


def test_a_look_without_an_answer(question: Locator) -> None:
    """The fold has the reason, and says nothing of an answer."""
    fold = outcome_of(question)
    fold.locator("summary").click()

    expect(fold.locator(".predict-reason")).to_be_visible()
    expect(question.get_by_role("status")).to_be_empty()


def test_without_a_script(browser: Browser, site: str) -> None:
    """The choices are a list, and the fold opens by a click."""
    context = browser.new_context(base_url=site, java_script_enabled=False)
    page = context.new_page()
    page.goto(PAGE)
    question = page.locator(".predict").first
    fold = outcome_of(question)
    for radio in question.locator("input").all():
        expect(radio).to_be_hidden()
    expect(question.locator("li").first).to_be_visible()
    expect(fold.locator(".cell_output")).to_be_hidden()
    fold.locator("summary").click()

    expect(fold.locator(".predict-reason")).to_be_visible()
    expect(fold.locator(".cell_output")).to_be_visible()
    context.close()


def test_print_shows_the_outcome(page: Page, question: Locator) -> None:
    """Paper has no folds."""
    output = outcome_of(question).locator(".cell_output")
    expect(output).to_be_hidden()
    page.emulate_media(media="print")

    expect(output).to_be_visible()


@pytest.mark.parametrize("width", [320, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_for_everyone(
    page: Page, asking: str, width: int, scheme: str
) -> None:
    """An answered question is not too wide, and axe finds nothing in it."""
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(asking)
    for value in ("right", "wrong"):
        for radio in page.locator(f"li:first-child [value={value}]").all():
            radio.click()
    wide = page.evaluate("document.documentElement.scrollWidth")
    scope = [[".predict"], [".predict-outcome"]]
    # What axe would fetch by itself are style sheets.
    found = Axe().run(page, {"include": scope}, {"preload": False})

    assert wide <= width
    assert found.violations_count == 0, found.generate_report()
