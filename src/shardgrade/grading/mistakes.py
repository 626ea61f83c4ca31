"""Name the mistake that an attempt makes, if many make it.

``mistakes.toml`` has the mistakes, each an edit of a solution.
"""

import contextlib
import io
import re
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from shardgrade.grading.agreement import Near
from shardgrade.grading.attempt import Attempt, solution
from shardgrade.grading.differences import is_array, is_close, numbers

LIST = Path(__file__).with_suffix(".toml")
# How many whole numbers tell nothing.
FEW = 8
# How near each array of an attempt must be to that of a mistake, as a part
# of what it is off from the solution, and of its own size; a few numbers,
# which are near others by chance, much nearer.
NEARER, ALIKE, EXACT = 0.03, 2e-3, 1e-5
# What is larger hides all other numbers of an array.
LARGE = 1e6


@dataclass(frozen=True)
class Mistake:
    """What many write in place of something in a solution.

    Attributes:
        right: A text of the solution.
        wrong: What is written instead.
        says: The mistake. ``{axis}`` stands for the first name in quotes
            after the text.
        also: Other texts of the solution, and what is written instead.
        kind: The kind of the checks that find it, or ``"crash"``.
        read: The section of the page to read, if not that of the check.
        counts: Whether a few whole numbers tell it too.
    """

    right: str
    wrong: str
    says: str
    also: tuple[tuple[str, str], ...] = ()
    kind: str = "values"
    read: str = ""
    counts: bool = False


def keep_first(tree: Any, axis: Any) -> Any:
    """Give what the first device along an axis has.

    NumPy reads this one of copies that aren't the same.
    """
    first = jax.lax.axis_index(axis) == 0
    own = jax.tree.map(lambda value: jnp.where(first, value, 0), tree)
    return jax.lax.psum(own, axis)


def keep_own_part(value: Any, axis: Any, **how: Any) -> Any:
    """Give a device's part of its own terms."""
    size = jax.lax.axis_size(axis)
    mine = jnp.arange(size) == jax.lax.axis_index(axis)
    parts = jnp.stack(
        jnp.split(value, size, how.get("scatter_dimension", 0))
    )
    shape = [size] + [1] * value.ndim
    return jnp.where(mine.reshape(shape), parts, 0).sum(0)


def attend_by(weigh: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """Give attention with other weights, of the scores and the mask."""

    def compute(
        q: Any, k: Any, v: Any, mask: Any = None, is_causal: bool = False
    ) -> Any:
        groups = q.shape[2] // k.shape[2]
        k, v = (jnp.repeat(each, groups, axis=2) for each in (k, v))
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / q.shape[-1] ** 0.5
        seen = jnp.tri(q.shape[1], dtype=bool) if is_causal else mask
        return jnp.einsum("bhqk,bkhd->bqhd", weigh(scores, seen), v)

    return compute


# What the edits call, beside what their solution imports.
CALLED = {
    each.__name__: each for each in (keep_first, keep_own_part, attend_by)
} | {"np": np}


@cache
def read_mistakes(problem: str) -> tuple[Mistake, ...]:
    """Read the mistakes that can be made at a problem, its own first."""
    table = tomllib.loads(LIST.read_text(encoding="utf-8"))
    text = read_solution(problem)
    return tuple(
        Mistake(**each | {"also": tuple(map(tuple, each.get("also", ())))})
        for each in (*table.get(problem, ()), *table["any"])
        if each["right"] in text
    )


def name_mistake(
    attempt: Attempt,
    kind: str,
    gives: Sequence[Callable[[Attempt], Any]],
    agree: Callable[[Any, Any], bool],
) -> Mistake | None:
    """Find the mistake with which a solution gives what an attempt gives.

    Where values are compared, a mistake is named only by arrays of floats,
    and not by a few whole numbers, which don't tell mistakes apart.

    Args:
        attempt: The attempt.
        kind: The kind of the check that refuses it, or ``"crash"``.
        gives: Give what is compared, or the words of an error: in the case
            that is refused, and then in each, because one case can't tell
            a sum over two devices from another factor of two.
        agree: Tells whether the attempt and the solution agree.

    Returns:
        The mistake, with ``{axis}`` filled in, or None.
    """
    # Several processes would wait for each other.
    if jax.process_count() > 1:
        return None
    ours = solution(attempt.problem)
    near = agree if isinstance(agree, Near) else None
    floats = jax.tree.leaves(gives[0](ours)) if kind == "values" else []
    tells = all(
        is_array(each) and jnp.issubdtype(each.dtype, jnp.floating)
        for each in floats
    ) and any(each.size > FEW or each.ravel()[0] % 1 for each in floats)
    tells = tells or kind != "values"
    text = read_solution(attempt.problem)
    for mistake in read_mistakes(attempt.problem):
        if mistake.kind != kind or not (tells or mistake.counts):
            continue
        for at in re.finditer(re.escape(mistake.right), text):
            # An edit may make code that can't run for these arguments, and
            # what is printed then is not the attempt's.
            with (
                contextlib.suppress(Exception),
                contextlib.redirect_stdout(io.StringIO()),
            ):
                each = edit_solution(attempt.problem, mistake, at.start())
                rows = (
                    (give(attempt), give(each), give(ours))
                    for give in gives
                )
                if is_made(*next(rows), near) and all(
                    is_close(mine, made) or is_made(mine, made, right, near)
                    for mine, made, right in rows
                ):
                    return name_axis(mistake, text[at.start() :])
    return None


def is_made(
    found: Any,
    made: Any,
    wanted: Any,
    agree: Callable[[Any, Any], bool] | None,
) -> bool:
    """Tell whether an attempt gives what a mistake gives, not the solution.

    Args:
        found: What the attempt gives.
        made: What the solution gives with the mistake.
        wanted: What the solution gives.
        agree: Tells whether two of these agree, or None if they must be
            nearly the same.
    """
    if not all(map(is_array, jax.tree.leaves([found, wanted]))):
        return is_close(found, made) and not is_close(made, wanted)
    rows = zip(*map(jax.tree.leaves, (found, made, wanted)), strict=True)
    clipped = [
        [np.clip(np.float64(numbers(each)), -LARGE, LARGE) for each in row]
        for row in rows
    ]
    some = sum(mine.size for mine, *_ in clipped)
    alike = ALIKE if some > FEW else EXACT
    off = False
    for mine, theirs, right in clipped:
        size, near, far = (
            np.sqrt(np.nansum(each**2))
            for each in (mine, mine - theirs, mine - right)
        )
        agrees = near <= alike * size or agree is not None
        if not agrees or (np.isnan(mine) != np.isnan(theirs)).any():
            return False
        told = near <= NEARER * far
        if far > alike * size and not told:
            return False
        off = off or bool(told and far)
    return off and (agree is None or agree(found, made))


def name_axis(mistake: Mistake, rest: str) -> Mistake:
    """Write the axis that the text names into a mistake's sentence."""
    # In the call's first lines alone: an axis can also be a variable.
    name = re.match(r'(?:.*\(\n)?.*?"(\w+)"', rest)
    axis = f' \\1 "{name[1]}"' if name else ""
    says = re.sub(r' (over|along) "{axis}"', axis, mistake.says)
    return replace(mistake, says=says)


@cache
def read_solution(problem: str) -> str:
    """Read the file of a solution."""
    return Path(solution(problem).filename).read_text(encoding="utf-8")


@cache
def edit_solution(problem: str, mistake: Mistake, start: int) -> Attempt:
    """Give a solution with a mistake at a place of its text."""
    text, filename = read_solution(problem), solution(problem).filename
    end = start + len(mistake.right)
    edited = text[:start] + mistake.wrong + text[end:]
    for right, wrong in mistake.also:
        edited = edited.replace(right, wrong)
    module = ModuleType(f"mistaken.{problem}")
    vars(module).update(CALLED)
    exec(compile(edited, filename, "exec"), vars(module))
    found = getattr(module, problem)
    return Attempt(problem, found, filename, vars(module))
