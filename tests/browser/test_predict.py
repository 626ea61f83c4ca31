"""A question is answered by mouse and by keyboard."""

import pytest
from bs4 import BeautifulSoup
from playwright.sync_api import Locator, Page, expect

from shardbook.problems import NAMES


@pytest.fixture
def question(page: Page) -> Locator:
    """Return the first question of a page."""
    page.goto("problems/split_merge_round_trip.html")
    return page.locator(".predict").first


def outcome_of(question: Locator) -> Locator:
    """Give the fold of a question."""
    return question.locator("xpath=following-sibling::div[1]//details")


def test_every_problem_asks(soups: dict[str, BeautifulSoup]) -> None:
    """The page of a problem has two to four questions."""
    for name in NAMES:
        found = soups[f"problems/{name}.html"].select(".predict")
        assert 2 <= len(found) <= 4, name


@pytest.mark.exhaustive("one script does it on all pages")
def test_every_right_answer_opens_its_fold(
    page: Page, page_name: str, problem: str
) -> None:
    """A right answer shows the verdict, the reason and the output."""
    page.goto(page_name)
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
    fold, status = outcome_of(question), question.get_by_role("status")
    question.locator("[value=wrong]").first.click()
    expect(status).to_contain_text("Wrong.")
    question.locator("[value=right]").click()
    expect(status).to_contain_text("Right.")
    fold.locator("summary").click()

    expect(fold).not_to_have_attribute("open", "")


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


def test_a_look_without_an_answer(question: Locator) -> None:
    """The fold has the reason, and says nothing of an answer."""
    fold = outcome_of(question)
    fold.locator("summary").click()

    expect(fold.locator(".predict-reason")).to_be_visible()
    expect(question.get_by_role("status")).to_be_empty()
