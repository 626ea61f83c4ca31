"""A question is true: the next cell prints its right answer, no other."""

import pytest
from building import GOOD, Build, cell


def question(*lines: str) -> str:
    """Give the Markdown of a question."""
    content = "\n".join(lines)
    return f"\n:::{{predict}} What happens?\n{content}\n:::\n"


CHOICES = question("- [ ] `1`", "- [x] `2`: two", "Because.")
COLORS = question("- [ ] red", "- [x] deep blue", "Because.")
NOT_PRINTED = "the next cell does not print '`2`: two', the right choice"
NO_OUTPUT = "no cell with an output follows"
# What follows the choices, and what the build must say.
ANSWERS = {
    "another_answer": (cell("print(3)"), NOT_PRINTED),
    "part_of_a_number": (cell("print('12 2.5 2,000 x2 2x')"), NOT_PRINTED),
    "two_answers": (
        cell("print(1)\nprint(2)"),
        "the next cell prints '`1`', the wrong choice",
    ),
    "in_the_code_alone": (cell("two = 2\nprint('done')"), NOT_PRINTED),
    "in_a_later_cell": (cell("print()") + cell("print(2)"), NOT_PRINTED),
    "behind_a_picture": (
        cell("shown = {'text/plain': '2', 'text/html': '<hr>'}"),
        NOT_PRINTED,
    ),
    "prints_nothing": (cell("2 + 2"), NO_OUTPUT),
    "prose_between": ("\nWords.\n" + cell("print(2)"), NO_OUTPUT),
}
NO_QUESTIONS = {
    "no_right_choice": question("- [ ] 1", "- [ ] 2", "Because."),
    "two_right_choices": question("- [x] 1", "- [x] 2", "Because."),
    "one_choice": question("- [x] 2", "Because."),
    "no_reason": question("- [ ] 1", "- [x] 2"),
}
# A page, and what the build must say about it, after page and line.
WRONG = {
    "part_of_the_words": (
        GOOD + COLORS + cell("print('blue')"),
        "the next cell does not print 'deep blue', the right choice",
    ),
    **{
        name: (GOOD + CHOICES + after, words)
        for name, (after, words) in ANSWERS.items()
    },
    **{
        name: (GOOD + wrong + cell("print(1, 2)"), "needs two lines")
        for name, wrong in NO_QUESTIONS.items()
    },
}
RIGHT = {
    "literal": GOOD + CHOICES + cell("print('it is 2.')"),
    "value": GOOD
    + CHOICES
    + cell("shown = {'text/plain': \"{'two': 2}\"}"),
    "words": GOOD + COLORS + cell("print('a deep blue')"),
}


@pytest.fixture(scope="module")
def said(build_here: Build) -> list[str]:
    """The lines of one build of all the wrong pages."""
    pages = {name: page for name, (page, _) in WRONG.items()}
    warnings, _ = build_here(pages)
    return warnings.splitlines()


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_question_is_named(said: list[str], name: str) -> None:
    """A warning says where a wrong question is, and what is wrong."""
    found = [line for line in said if f"docs/{name}.md:15:" in line]

    assert len(found) == 1
    assert WRONG[name][1] in found[0]


def test_the_output_is_in_a_closed_fold(build_here: Build) -> None:
    """A right question stands open; reason and output are in a fold."""
    warnings, output = build_here(RIGHT)
    html = (output / "literal.html").read_text("utf-8")
    before, fold = html.split('<details class="predict-outcome">')
    fold, after = fold.split("</details>", 1)

    assert warnings == ""
    assert before.count('class="predict"') == 1
    assert "it is 2." in fold.split("Because.")[1]
    assert "Because." not in before + after
    assert "it is 2." not in after
