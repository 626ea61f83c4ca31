"""Say which numbers are wrong, and if they are a known mistake away."""

import math
from collections.abc import Callable, Iterable
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from shardgrade.grading.cases import leaves_by_path
from shardgrade.grading.differences import is_array, numbers

# How many names stand in a sentence.
NAMES = 4
# How near numbers must be to a multiple of others, as a part of the largest
# one; and how far a factor must be from 1 to be a mistake and no rounding.
NEAR, APART = 0.01, 0.05


def describe_mistake(
    found: Any,
    wanted: Any,
    agree: Callable[[Any, Any], bool],
    arguments: Iterable[Any],
) -> str:
    """Say which arrays of a tree are wrong, and by which factor if by one.

    Args:
        found: What came of the attempt.
        wanted: What came of the solution; not the same.
        agree: Tells whether two arrays agree.
        arguments: Those of the call; a mesh among them has the sizes of
            sums.

    Returns:
        Words for the end of a sentence, or nothing where nothing is known.
    """
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
    pairs = [(got[path], expected[path]) for path in wrong]
    if factor := common_factor(pairs):
        words.append(say_factor(factor, arguments))
    return f" ({'; '.join(words)})" if words else ""


def listed(paths: list[str]) -> str:
    """Name a few paths."""
    names = ", ".join(paths[:NAMES])
    more = len(paths) - NAMES
    return f"{names} and {more} more" if more > 0 else names


def common_factor(pairs: list[tuple[Any, Any]]) -> float:
    """Give what all right numbers were multiplied by; 0 if by no one."""
    flat = [
        [np.asarray(numbers(each)).ravel().astype(float) for each in pair]
        for pair in pairs
        if jax.numpy.issubdtype(pair[1].dtype, jax.numpy.floating)
    ]
    if len(flat) < len(pairs):
        return 0
    got, expected = map(np.concatenate, zip(*flat, strict=True))
    square = expected @ expected
    # One number is a multiple of any other.
    if got.size < 2 or not np.isfinite(got).all() or not square > 0:
        return 0
    factor = float(got @ expected / square)
    off = np.abs(got - factor * expected).max()
    near = off <= NEAR * np.abs(factor * expected).max()
    return factor if near and abs(factor - 1) > APART else 0


def say_factor(factor: float, arguments: Iterable[Any]) -> str:
    """Say what a factor is, where a mesh axis has as many devices."""
    axes = {
        name: size
        for each in arguments
        if isinstance(each, Mesh)
        for name, size in each.shape.items()
        if size > 1
    }
    whole = math.prod(axes.values())
    for inverse, act in (
        (False, "added up once more"),
        (True, "averaged, where their sum is wanted,"),
    ):
        times = 1 / factor if inverse else factor
        over = [
            f'"{name}"'
            for name, size in axes.items()
            if abs(times / size - 1) < NEAR
        ]
        if len(axes) > 1 and abs(times / whole - 1) < NEAR:
            over.append("all devices")
        if over:
            count = round(times)
            number = f"1/{count} of" if inverse else f"{count} times"
            return (
                f"the numbers are {number} the right ones, as if they were "
                f"{act} over {' or '.join(over)}"
            )
    return f"the numbers are {factor:.4g} times the right ones"
