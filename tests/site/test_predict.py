"""A question is true: the next cell prints its right answer, no other."""

from pathlib import Path

import pytest
from books import GOOD, cell, run_docs, write_book


def question(*lines: str) -> str:
    """Give the Markdown of a question."""
    content = "\n".join(lines)
    return f"\n:::{{predict}} What happens?\n{content}\n:::\n"


CHOICES = question("- [ ] `1`", "- [x] `2`: two", "Because.")
# A page, and what the build must say about it, after page and line.
WRONG = {
    "another_answer": (
        GOOD + CHOICES + cell("print(3)"),
        "predict: the next cell does not print '`2`: two', the right",
    ),
    "part_of_a_number": (
        GOOD + CHOICES + cell("print('12 2.5 2,000 0.2 x2 2x')"),
        "predict: the next cell does not print '`2`: two', the right",
    ),
    "two_answers": (
        GOOD + CHOICES + cell("print(1)\nprint(2)"),
        "predict: the next cell prints '`1`', the wrong choice",
    ),
    "in_the_code_alone": (
        GOOD + CHOICES + cell("two = 2\nprint('done')"),
        "predict: the next cell does not print '`2`: two', the right",
    ),
    "in_a_later_cell": (
        GOOD + CHOICES + cell("print('done')") + cell("print(2)"),
        "predict: the next cell does not print '`2`: two', the right",
    ),
    "behind_a_picture": (
        GOOD
        + CHOICES
        + cell(
            "class Picture:\n"
            "    def __repr__(self): return '2'\n"
            "    def _repr_html_(self): return '<hr>'\n"
            "Picture()"
        ),
        "predict: the next cell does not print '`2`: two', the right",
    ),
    "part_of_the_words": (
        GOOD
        + question("- [ ] red", "- [x] deep blue", "Because.")
        + cell("print('blue')"),
        "predict: the next cell does not print 'deep blue', the right",
    ),
    "prints_nothing": (
        GOOD + CHOICES + cell("2 + 2;"),
        "predict: no cell with an output follows",
    ),
    "prose_between": (
        GOOD + CHOICES + "\nWords.\n" + cell("print(2)"),
        "predict: no cell with an output follows",
    ),
    "no_right_choice": (
        GOOD
        + question("- [ ] 1", "- [ ] 2", "Because.")
        + cell("print(2)"),
        "predict: needs two lines",
    ),
    "two_right_choices": (
        GOOD
        + question("- [x] 1", "- [x] 2", "Because.")
        + cell("print(1, 2)"),
        "predict: needs two lines",
    ),
    "one_choice": (
        GOOD + question("- [x] 2", "Because.") + cell("print(2)"),
        "predict: needs two lines",
    ),
    "no_reason": (
        GOOD + question("- [ ] 1", "- [x] 2") + cell("print(2)"),
        "predict: needs two lines",
    ),
}


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> tuple[int, str]:
    """The status and the words of one build of all the wrong pages."""
    folder = tmp_path_factory.mktemp("wrong")
    pages = {name: page for name, (page, _) in WRONG.items()}
    pages["broken"] = GOOD + cell("1 / 0") + CHOICES + cell("print(2)")
    write_book(folder, pages)
    result = run_docs(folder)
    return result.returncode, result.stdout


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_question_is_named(
    failed: tuple[int, str], name: str
) -> None:
    """The build fails, and says where the question is, and why."""
    status, words = failed
    said = [
        line for line in words.splitlines() if f"docs/{name}.md:14:" in line
    ]

    assert status == 1
    assert len(said) == 1
    assert WRONG[name][1] in said[0]


def test_a_cell_that_never_ran_answers_nothing(
    failed: tuple[int, str],
) -> None:
    """Of a page that failed, only the failure is told."""
    lines = failed[1].splitlines()

    assert [line for line in lines if "docs/broken.md, code cell" in line]
    assert not [
        line for line in lines if "broken.md:" in line and "predict" in line
    ]


def test_a_right_question(tmp_path: Path) -> None:
    """It stands open, and the output of its cell is in a closed fold."""
    pages = {
        # The description of a page is how its text begins.
        "literal": GOOD
        + "\nA page.\n"
        + CHOICES
        + cell("print('it is 2.')"),
        "value": GOOD + CHOICES + cell("{'two': 2}"),
        "words": GOOD
        + question("- [ ] red", "- [x] deep blue", "Because.")
        + cell("print('a deep blue')"),
        "plain": GOOD + cell("print(2)"),
    }
    write_book(tmp_path, pages)
    result = run_docs(tmp_path)
    book = tmp_path / "docs" / "_build" / "html"
    html = {
        name: (book / f"{name}.html").read_text("utf-8") for name in pages
    }

    assert result.returncode == 0, result.stdout
    assert html["literal"].count("<fieldset") == 1
    source, fold = html["literal"].split(
        '<details class="predict-outcome">'
    )
    assert "it is 2." not in fold.partition("</details>")[2]
    assert "it is 2." in fold
    assert "Because." in fold
    assert "Because." not in source
    assert "predict.js" in html["literal"]
    assert "predict" not in html["plain"]
