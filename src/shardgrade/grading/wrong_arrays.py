"""Say which arrays are wrong, and what their numbers have in common."""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import jax
import numpy as np

from shardgrade.grading.cases import leaves_by_path
from shardgrade.grading.differences import is_array, numbers

# How many names stand in a sentence.
NAMES = 4
# How near numbers must be to a multiple of others, as a part of the largest
# one; and how far a factor must be from 1 to be a mistake and no rounding.
NEAR, APART = 0.01, 0.05
# Up to which whole number one number tells a factor, and how near it is.
MOST, EXACT = 64, 1e-4
# How far off numbers of bfloat16 may be, as a part of the largest; and of
# how many rows the order is looked at.
ROUGH, ROWS = 2**-6, 1024


def describe_wrong_arrays(
    found: Any,
    wanted: Any,
    agree: Callable[[Any, Any], bool],
) -> str:
    """Say which arrays of a tree are wrong, and by which factor if by one.

    Args:
        found: What came of the attempt.
        wanted: What came of the solution; not the same.
        agree: Tells whether two arrays agree.

    Returns:
        Words for the end of a sentence, or nothing where nothing is known.
    """
    if isinstance(found, float):
        found, wanted = (np.array(x, "f4") for x in (found, wanted))
    got, expected = map(leaves_by_path, (found, wanted))
    if got.keys() != expected.keys() or not all(
        is_array(each)
        and is_array(got[path])
        and got[path].shape == each.shape
        for path, each in expected.items()
    ):
        return ""
    wrong = [path for path in got if not agree(got[path], expected[path])]
    if not wrong:
        return ""
    words = []
    if len(wrong) < len(got):
        right = [path for path in got if path not in wrong]
        words = [f"wrong: {listed(wrong)}; right: {listed(right)}"]
    pairs = {
        path: [
            np.asarray(numbers(each)).astype(float)
            for each in (got[path], expected[path])
        ]
        for path in wrong
        if jax.numpy.issubdtype(expected[path].dtype, jax.numpy.floating)
    }
    if len(pairs) == len(wrong):
        words += describe_numbers(pairs)
    return f" ({'; '.join(words)})" if words else ""


def describe_numbers(pairs: dict[str, Any]) -> list[str]:
    """Say what wrong arrays have in common, if it is plain to see.

    Args:
        pairs: What the attempt gave and what is right, by path.
    """
    nan = [path for path, (got, _) in pairs.items() if np.isnan(got).any()]
    if nan:
        return [f"NaN in {listed(nan)}" if len(pairs) > 1 else "NaN"]
    # One number is a multiple of any other, and near many.
    if sum(got.size for got, _ in pairs.values()) < 2:
        return describe_number(*next(iter(pairs.values())))
    if not any(got.any() for got, _ in pairs.values()):
        return ["all zeros"]
    if factor := common_factor(pairs.values()):
        return [f"the numbers are {factor:.4g} times the right ones"]
    if factor := common_factor(pairs.values(), off=True):
        wrong = "the numbers that are wrong are"
        return [f"{wrong} {factor:.4g} times the right ones"]
    rows = [find_moved_row(*pair) for pair in pairs.values()]
    if all(rows):
        return [f"right rows in another order: {rows[0]}"]
    shifts = [find_shift(*pair) for pair in pairs.values()]
    if all(shifts):
        return shifts[:1]
    if all(looks_rounded(*pair) for pair in pairs.values()):
        return ["perhaps something is rounded to bfloat16"]
    return []


def describe_number(got: Any, right: Any) -> list[str]:
    """Say which whole number, or part, one number is of the right one."""
    factor = float(got.sum() / (right.sum() or np.nan))
    for ratio, words in ((factor, ""), (1 / (factor or np.nan), "1 / ")):
        if 2 <= abs(ratio) <= MOST and abs(ratio - round(ratio)) < EXACT:
            return [f"it is {words}{round(ratio)} times the right number"]
    # Of a float32 number, one in 65,536 is one of bfloat16.
    short = got == got.astype("bfloat16").astype(float)
    near = np.abs(got - right) <= ROUGH * np.abs(right)
    if short.all() and near.all() and got.any():
        return ["perhaps it is rounded to bfloat16"]
    return []


def describe_layouts(found: Any, wanted: Any) -> str:
    """Say which arrays are elsewhere, and where if they are whole there.

    Args:
        found: What describes the shards of the attempt's arrays, by path.
        wanted: The same of the solution.
    """
    if not isinstance(wanted, dict) or found.keys() != wanted.keys():
        return ""
    wrong = [path for path in wanted if found[path] != wanted[path]]
    right = [path for path in wanted if path not in wrong]
    words = [f"wrong: {listed(wrong)}; right: {listed(right)}"]
    shards = [str(found[path]).splitlines()[1:] for path in wrong]
    holders = {each[0].partition(":")[0].strip() for each in shards if each}
    if len(holders) == 1 and all(len(each) == 1 for each in shards):
        words.append(f"whole on {holders.pop()}")
    told = words[not right :]
    return f" ({'; '.join(told)})" if told else ""


def _items(found: re.Match[str]) -> str:
    return "".join(f"[{number}]" for number in found.groups() if number)


def find_moved_row(got: Any, right: Any) -> str:
    """Say where a row is that belongs elsewhere, if all rows are right."""
    if got.ndim < 2 or len(got) > ROWS:
        return ""
    mine, others = (each.reshape(len(got), -1) for each in (got, right))
    from_mine, from_others = (
        np.lexsort(np.round(each, 3).T) for each in (mine, others)
    )
    pair = mine[from_mine], others[from_others]
    if not np.allclose(*pair, rtol=NEAR, atol=2e-3):
        return ""
    place = from_others[np.argsort(from_mine)]
    at = int((place != np.arange(len(got))).argmax())
    return f"row {place[at]} is at {at}" if place[at] != at else ""


def find_shift(got: Any, right: Any) -> str:
    """Say how far most rows are from their places, if all by as much."""
    if got.ndim < 2 or len(got) > ROWS:
        return ""
    mine, others = (
        map(tuple, np.round(each.reshape(len(got), -1), 2))
        for each in (got, right)
    )
    places = {row: at for at, row in enumerate(others)}
    far = Counter(
        at - places[row] for at, row in enumerate(mine) if row in places
    )
    shift, count = max(far.items(), key=lambda x: x[1], default=(0, 0))
    if not shift or count < len(got) // 4:
        return ""
    way = "late" if shift > 0 else "early"
    return f"{count} of {len(got)} rows are {abs(shift)} rows too {way}"


def looks_rounded(got: Any, right: Any) -> bool:
    """Tell whether numbers are off as bfloat16 rounds, up and down."""
    off, size = got - right, np.abs(right).max()
    some = np.abs(off) > 2**-16 * size
    return bool(
        (np.abs(off) <= ROUGH * size).all()
        and some.mean() > 0.5
        and 0.25 < ((off * right)[some] > 0).mean() < 0.75
    )


def listed(paths: list[str]) -> str:
    """Name a few paths."""
    # The items of a tuple as in "[0]", which a number alone doesn't say.
    names = ", ".join(
        re.sub(r"^(\d+)(?:\.(\d+))?\b", _items, path)
        for path in paths[:NAMES]
    )
    more = len(paths) - NAMES
    return f"{names} and {more} more" if more > 0 else names


def common_factor(
    pairs: Iterable[tuple[Any, Any]], *, off: bool = False
) -> float:
    """Give what right numbers were multiplied by; 0 if by no one.

    Args:
        pairs: What the attempt gave and what is right.
        off: Whether to look at numbers that are off alone.
    """
    got, expected = (
        np.concatenate([each.ravel() for each in side])
        for side in zip(*pairs, strict=True)
    )
    if off:
        wrong = ~np.isclose(got, expected, rtol=NEAR)
        got, expected = got[wrong], expected[wrong]
        if got.size < ROWS // 16:
            return 0
    square = expected @ expected
    if not np.isfinite(got).all() or not square > 0:
        return 0
    factor = float(got @ expected / square)
    most = np.abs(got - factor * expected).max()
    near = most <= NEAR * np.abs(factor * expected).max()
    return factor if near and abs(factor - 1) > APART else 0
