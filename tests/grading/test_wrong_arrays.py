"""A verdict says which numbers are wrong, and what they are."""

import numpy as np
import pytest

from shardbook.inputs import normal
from shardgrade.grading.differences import is_close
from shardgrade.grading.wrong_arrays import describe_wrong_arrays

pytestmark = pytest.mark.newest
X, Y = np.asarray(normal(4, 3)), np.asarray(normal(5, seed=1))
MANY = np.asarray(normal(32, 8))


def said(found: object, wanted: object) -> str:
    """Describe what is wrong."""
    return describe_wrong_arrays(found, wanted, is_close)


@pytest.mark.parametrize("factor", [4, 0.5, -1, 3.5])
def test_a_factor(factor: float) -> None:
    """A result that is a multiple of the right one says of which number."""
    assert f"{factor} times the right ones" in said(factor * X, X)


def test_which_array() -> None:
    """Of several arrays, those that are wrong are named, and the others."""
    wanted = {"x": X, "params": {"w": Y, "v": X}}
    found = {"x": X, "params": {"w": Y[::-1], "v": X}}

    assert said(found, wanted) == " (wrong: params.w; right: params.v, x)"


ROUNDED = MANY.astype("bfloat16").astype("float32")


@pytest.mark.parametrize(
    ("found", "wanted", "words"),
    [
        (np.zeros_like(X), X, "all zeros"),
        (np.where(X > 0, np.nan, X), X, "NaN"),
        ((X * np.nan, Y + 1), (X, Y), "NaN in [0]"),
        (X[[0, 2, 3, 1]], X, "right rows in another order: row 2 is at 1"),
        (np.ones(1), np.full(1, 4.0), "it is 1 / 4 times the right number"),
        (ROUNDED, MANY, "perhaps something is rounded to bfloat16"),
    ],
)
def test_what_is_plain_to_see(
    found: object, wanted: object, words: str
) -> None:
    """NaN, zeros, rows in another order and rounding are told apart."""
    assert words in said(found, wanted)


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (Y[::-1], Y),
        (X + 1, X),
        (X.T, X),
        ("some", "other"),
        # Any number is a multiple of another.
        (np.ones(1), np.full(1, 2.5)),
        # As rounding makes it.
        (1.01 * X, X),
    ],
)
def test_what_is_not_known(found: object, wanted: object) -> None:
    """Nothing is said that could be something else."""
    assert said(found, wanted) == ""
