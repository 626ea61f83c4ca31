"""Each mistake of the list is an edit of a solution, and is named."""

import importlib
import tomllib
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from shardbook.book import headings
from shardbook.problems import NAMES
from shardgrade.grading.attempt import Attempt, Crashed, Wrong, solution
from shardgrade.grading.mistakes import (
    LIST,
    edit_solution,
    is_made,
    name_axis,
    name_mistake,
    read_mistakes,
    read_solution,
)
from shardgrade.grading.same import SAME_ERROR, is_close

TABLE = tomllib.loads(LIST.read_text("utf-8"))
# Where a mistake of several problems is tried: these take the least.
QUICK = (
    "attention_by_heads",
    "megatron_mlp",
    "sequence_parallel_block",
    "place_state",
    "fsdp_step",
    "vocab_parallel_loss",
)


@pytest.mark.parametrize("problem", NAMES)
def test_the_list(problem: str) -> None:
    """A problem's mistakes are in its solution, and lead to its page."""
    found = read_mistakes(problem)
    own = TABLE.get(problem, [])

    assert [each.says for each in found[: len(own)]] == [
        each["says"] for each in own
    ]
    for each in found:
        assert each.read in ("", *headings(problem)), each
        assert all(
            right in read_solution(problem) for right, _ in each.also
        )


def test_no_other() -> None:
    """No mistake is that of no problem."""
    found = {each.right for name in NAMES for each in read_mistakes(name)}

    assert TABLE.keys() <= {"any", *NAMES}
    assert {each["right"] for each in TABLE["any"]} <= found


def refusal(problem: str, function: Attempt) -> str:
    """Grade a function, and give the sentence that refuses it."""
    rules = importlib.import_module(f"shardgrade.checks.{problem}")
    attempt = replace(function, seen={})
    try:
        for check in rules.CHECKS.values():
            for case in check.cases:
                check.run(attempt, case)
    except Wrong as refused:
        return refused.why
    except Crashed as crash:
        return str(crash).rpartition(SAME_ERROR)[2]
    return "right"


@pytest.mark.exhaustive("Attempts have the most frequent ones.")
@pytest.mark.parametrize(
    "entry", TABLE["any"], ids=range(len(TABLE["any"]))
)
def test_a_mistake_is_named(entry: dict[str, str]) -> None:
    """A solution with a mistake is refused for it."""
    problem, mistake = next(
        (name, each)
        for name in QUICK
        for each in read_mistakes(name)
        if (each.right, each.wrong) == (entry["right"], entry["wrong"])
    )
    text = read_solution(problem)
    at = text.index(mistake.right)
    wanted = name_axis(mistake, text[at:]).says

    assert refusal(problem, edit_solution(problem, mistake, at)) == wanted


X, OTHER = np.arange(1.0, 17), np.arange(16.0, 0, -1)


@pytest.mark.parametrize(
    ("found", "made", "right"),
    [
        (2 * X, 2 * X, True),
        (2.0001 * X, 2 * X, True),
        ({"a": X, "b": -X}, {"a": X, "b": -X}, True),
        # Nearer to the solution, or to neither.
        (1.001 * X, 1.002 * X, False),
        (2 * X, 2.1 * X, False),
        (OTHER, X + 2, False),
        # A few numbers are near others by chance.
        (2.0001 * X[-4:], 2 * X[-4:], False),
        # What is huge hides nothing.
        (np.append(2 * X, 1e30), np.append(3 * X, 1e30), False),
        # NaN hides what would differ.
        (X * np.nan, X * np.nan, False),
        (np.where(X > 4, np.nan, 2 * X), 2 * X, False),
    ],
)
def test_what_is_the_mistake(found: Any, made: Any, *, right: bool) -> None:
    """An attempt must be the same as the mistake, and not the solution."""
    wanted: Any = {"a": X, "b": X} if isinstance(found, dict) else X
    if wanted is X and len(found) != len(X):
        wanted = np.append(X, 1e30)[-len(found) :]

    assert is_made(found, made, wanted, None) == right


def test_each_case_must_tell_it() -> None:
    """A mistake that one case can't tell from the attempt is not named."""
    ours = solution("megatron_mlp")
    attempt = replace(ours, seen={})

    def give(each: Attempt, factor: int) -> Any:
        known = {id(ours): 1, id(attempt): 2}
        return known.get(id(each), factor) * X

    alike, apart = partial(give, factor=2), partial(give, factor=3)

    assert name_mistake(attempt, "values", [alike, alike], is_close)
    assert not name_mistake(attempt, "values", [alike, apart], is_close)
