"""Name the mistakes of the field: each is an edit of a solution.

A mistake is named if the attempt gives what the solution gives with that
edit. A problem whose solution doesn't have the text can't have the mistake.
"""

import contextlib
import re
from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass, replace
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from shardgrade.grading.attempt import Attempt, solution
from shardgrade.grading.differences import is_array

# What a function that stands in a solution is called there.
NAME = "mistaken"
# How many whole numbers tell nothing, and how near an attempt must be to a
# mistake, as a part of what it is off from the solution.
FEW, NEARER = 8, 0.1


@dataclass(frozen=True)
class Mistake:
    """What many write in place of something in a solution.

    Attributes:
        right: A text of the solution.
        wrong: What is written instead; or a function, for one that is
            called there.
        says: The mistake. ``{axis}`` stands for the first name in quotes
            after the text.
        read: The section of the page to read.
        also: Other texts of the solution, and what is written instead.
    """

    right: str
    wrong: str | Callable[..., Any]
    says: str
    _: KW_ONLY
    read: str = "Problem"
    also: tuple[tuple[str, str], ...] = ()


def keep_first(tree: Any, axis: Any) -> Any:
    """Give what the first device along an axis has.

    NumPy reads this one of copies that aren't the same.
    """
    first = jax.lax.axis_index(axis) == 0
    own = jax.tree.map(lambda value: jnp.where(first, value, 0), tree)
    return jax.lax.psum(own, axis)


def add_twice(value: Any, axis: Any) -> Any:
    """Add up what devices have, and then the copies of the sum."""
    total = jax.lax.psum(value, axis)
    return jax.lax.psum(jax.lax.pcast(total, axis, to="varying"), axis)


def add_over_mesh(value: Any, axis: Any) -> Any:
    """Add up over all axes of the mesh."""
    return jax.lax.psum(value, jax.sharding.get_abstract_mesh().axis_names)


def keep_own_part(value: Any, axis: Any, **how: Any) -> Any:
    """Give a device's part of its own terms."""
    size = jax.lax.axis_size(axis)
    mine = jnp.arange(size) == jax.lax.axis_index(axis)
    dimension = how.get("scatter_dimension", 0)
    parts = jnp.stack(jnp.split(value, size, dimension))
    shape = [size] + [1] * value.ndim
    return jnp.where(mine.reshape(shape), parts, 0).sum(0)


def average_parts(value: Any, axis: Any, **how: Any) -> Any:
    """Average where a reduce-scatter adds up."""
    total = jax.lax.psum_scatter(value, axis, **how)
    return total / jax.lax.axis_size(axis)


def attend_by(
    weigh: Callable[[Any, Any], Any],
) -> Callable[..., Any]:
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


def scale_queries(scale: Callable[[int], float]) -> Callable[..., Any]:
    """Give attention with another scale, of the size of a head."""
    return lambda q, *rest, **how: jax.nn.dot_product_attention(
        q, *rest, **how, scale=scale(q.shape[-1])
    )


def take_in_turn(q: Any, k: Any, v: Any, *rest: Any, **how: Any) -> Any:
    """Compute attention where query heads take turns with the others."""
    turn = jnp.arange(q.shape[2]) % k.shape[2]
    k, v = k[:, :, turn], v[:, :, turn]
    return jax.nn.dot_product_attention(q, k, v, *rest, **how)


SUM, SCATTER = "jax.lax.psum(", "jax.lax.psum_scatter("
MEAN, GELU = "jax.lax.pmean(", "jax.nn.gelu("
ATTENTION = "jax.nn.dot_product_attention("
VALUES = (
    Mistake(
        SUM,
        keep_first,
        'what the devices have is never added up over "{axis}": this is '
        "what the first one has",
    ),
    Mistake(
        SUM,
        jax.lax.pmean,
        'what the devices have is averaged over "{axis}", where the sum is '
        "wanted",
    ),
    Mistake(
        SUM,
        add_over_mesh,
        "what the devices have is added up over all axes of the mesh, "
        'where the sum over "{axis}" is wanted',
    ),
    Mistake(
        SUM,
        add_twice,
        'what the devices have is added up over "{axis}" twice',
    ),
    Mistake(
        SCATTER,
        keep_own_part,
        'what the devices have is never added up over "{axis}": each '
        "returns its part of what it has itself",
    ),
    Mistake(
        SCATTER,
        average_parts,
        'what the devices have is averaged over "{axis}", where the sum is '
        "wanted",
    ),
    Mistake(
        MEAN,
        keep_first,
        'nothing is averaged over "{axis}": this is what the first device '
        "has",
    ),
    Mistake(
        MEAN,
        jax.lax.psum,
        'what the devices have is added up over "{axis}", where the mean '
        "is wanted",
    ),
    Mistake(
        'jax.lax.axis_index("model")',
        "0",
        "each device counts from 0, as if it were the first along "
        '"{axis}": add its index times the size of a block',
    ),
    Mistake(
        GELU,
        lambda x: jax.nn.gelu(x, approximate=False),
        "gelu is exact, in place of its tanh approximation, the default of "
        "jax.nn.gelu",
    ),
    Mistake(GELU, jax.nn.relu, "relu stands in the place of gelu"),
    Mistake(GELU, jax.nn.silu, "silu stands in the place of gelu"),
    Mistake(
        "is_causal=True",
        "is_causal=False",
        "tokens attend to later tokens, but attention must be causal",
    ),
    Mistake(
        ATTENTION,
        attend_by(
            lambda scores, mask: jax.nn.softmax(
                jnp.where(jnp.tril(mask, -1), scores, -1e30)
            )
        ),
        "tokens don't attend to themselves: a causal mask lets a token see "
        "its own key, k <= q",
    ),
    Mistake(
        ATTENTION,
        attend_by(
            lambda scores, mask: jax.nn.softmax(jnp.where(mask, scores, 0))
        ),
        "a masked score is 0, which still gets a weight: it must be -inf, "
        "or as low",
    ),
    Mistake(
        ATTENTION,
        attend_by(
            lambda scores, mask: jnp.where(mask, jax.nn.softmax(scores), 0)
        ),
        "the mask comes after softmax, so the weights that are left don't "
        "sum to 1: mask the scores",
    ),
    Mistake(
        ATTENTION,
        attend_by(
            lambda scores, mask: jax.nn.softmax(
                jnp.where(jnp.swapaxes(mask, -1, -2), scores, -1e30)
            )
        ),
        "the mask is turned around: a token sees itself and later tokens",
    ),
    Mistake(
        ATTENTION,
        attend_by(
            lambda scores, mask: jax.nn.softmax(
                jnp.where(mask, scores, -1e30), axis=-2
            )
        ),
        "the softmax is over the queries, but it is the weights of a "
        "query's keys that sum to 1",
    ),
    Mistake(
        ATTENTION,
        take_in_turn,
        "query heads take the key-value heads in turn: for query head i, "
        "it must be i // (heads / kv_heads)",
    ),
    Mistake(
        ATTENTION,
        scale_queries(lambda size: 1.0),
        "the scores are not divided by the root of head_dim",
    ),
    Mistake(
        ATTENTION,
        scale_queries(lambda size: 1 / size),
        "the scores are divided by head_dim, not by its root",
    ),
    Mistake(
        "- rate *",
        "+ rate *",
        "the update goes up the gradient: the rate has the wrong sign",
    ),
)


PLACEMENT = (
    Mistake(
        "re.fullmatch(",
        "re.match(",
        "a rule was used that matches only the beginning of a path: the "
        "first that matches the whole path counts, as for re.fullmatch",
    ),
    Mistake(
        "re.fullmatch(",
        "re.search(",
        "a rule was used that matches only a part of a path: the first "
        "that matches the whole path counts, as for re.fullmatch",
    ),
    Mistake(
        "in rules",
        "in rules[::-1]",
        "of several rules that match a path, the last was used: the first "
        "counts",
    ),
    Mistake(
        "in rules",
        "in sorted(rules, key=lambda rule: -len(rule[0]))",
        "of several rules that match a path, the longest was used: the "
        "first counts",
    ),
)


def name_mistake(
    problem: str,
    kind: str,
    own: Iterable[Mistake],
    found: Any,
    wanted: Any,
    *,
    give: Callable[[Attempt], Any],
    agree: Callable[[Any, Any], bool],
) -> Mistake | None:
    """Find the mistake with which a solution gives what an attempt gave.

    Args:
        problem: The name of the problem.
        kind: The kind of the check that refuses the attempt.
        own: The mistakes of this problem alone, which are tried first.
        found: What the attempt gives.
        wanted: What the solution gives. Where values are compared, a
            mistake is named only by arrays of floats, and not by a few
            whole numbers, which don't tell mistakes apart.
        give: Gives the same of a solution with a mistake.
        agree: Tells whether the attempt and the mistake agree.

    Returns:
        The mistake, with ``{axis}`` filled in, or None.
    """
    floats = jax.tree.leaves(wanted)
    tells = all(
        is_array(each) and jnp.issubdtype(each.dtype, jnp.floating)
        for each in floats
    ) and any(each.size > FEW or each.ravel()[0] % 1 for each in floats)
    field = {"values": VALUES, "placement": PLACEMENT}.get(kind, ())
    # Several processes would wait for each other.
    if jax.process_count() > 1 or (kind == "values" and not tells):
        return None
    text = read_solution(problem)
    for mistake in (*own, *field):
        for at in re.finditer(re.escape(mistake.right), text):
            # An edit may make code that can't run for these arguments.
            with contextlib.suppress(Exception):
                made = give(edit_solution(problem, mistake, at.start()))
                if agree(found, made) and is_nearer(found, made, wanted):
                    return name_axis(mistake, text[at.start() :])
    return None


def is_nearer(found: Any, made: Any, wanted: Any) -> bool:
    """Tell whether arrays are much nearer to some than to others."""
    if isinstance(wanted, str) or not all(
        map(is_array, jax.tree.leaves(wanted))
    ):
        return bool(made != wanted)
    mine, others, right = map(jax.tree.leaves, (found, made, wanted))
    off = [
        sum(
            float(np.nansum((np.float64(a) - np.float64(b)) ** 2))
            for a, b in zip(mine, each, strict=True)
        )
        for each in (others, right)
    ]
    return off[0] <= NEARER**2 * off[1]


def name_axis(mistake: Mistake, rest: str) -> Mistake:
    """Write the axis that the text names into a mistake's sentence."""
    name = re.search(r'"(\w+)"', rest)
    says = mistake.says.replace("{axis}", name[1] if name else "")
    return replace(mistake, says=says)


def read_solution(problem: str) -> str:
    """Read the file of a solution."""
    return Path(solution(problem).filename).read_text(encoding="utf-8")


@cache
def edit_solution(problem: str, mistake: Mistake, start: int) -> Attempt:
    """Give a solution with a mistake at a place of its text."""
    text, filename = read_solution(problem), solution(problem).filename
    module = ModuleType(f"{NAME}.{problem}")
    wrong = mistake.wrong
    if callable(wrong):
        vars(module)[NAME], wrong = wrong, f"{NAME}("
    edited = text[:start] + wrong + text[start + len(mistake.right) :]
    for right, instead in mistake.also:
        edited = edited.replace(right, instead)
    exec(compile(edited, filename, "exec"), vars(module))
    found = getattr(module, problem)
    return Attempt(problem, found, filename, vars(module))
