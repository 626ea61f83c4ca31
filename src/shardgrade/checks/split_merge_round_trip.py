"""What a right ``split_merge_round_trip`` must show."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from shardbook.inputs import normal
from shardgrade.checks import _flax
from shardgrade.grading import measures, same, spies

SPLITS = (nnx.split, nnx.state, nnx.flatten, nnx.SplitContext.split)
MERGES = (nnx.merge, nnx.unflatten, nnx.MergeContext.merge)
# Flax itself calls these for an attempt, and for the copies that it makes.
ON_REQUEST = (nnx.split, nnx.state, nnx.merge)
COPIES = [
    each.__code__ for each in (nnx.clone, nnx.map, nnx.Module.__deepcopy__)
]


@contextmanager
def spoiled() -> Iterator[set[str]]:
    """Give each merged Linear another bias, and note splits and merges."""
    noted: set[str] = set()
    seeds = count()

    def look(function: Any, caller: Any, result: Any) -> None:
        by_flax = caller.co_filename.startswith(nnx.__path__[0])
        if by_flax and (function not in ON_REQUEST or caller in COPIES):
            return
        noted.add("split" if function in SPLITS else "merge")
        for _, node in nnx.iter_graph(result):
            if isinstance(node, nnx.Linear) and node.bias is not None:
                node.bias = nnx.Param((-3.0) ** jnp.arange(node.bias.size))

    def kernel(key: Any, shape: tuple[int, ...], *_: Any) -> jax.Array:
        # A second model differs; one that is traced may be the first.
        traced = isinstance(key, jax.core.Tracer)
        return normal(*shape, seed=0 if traced else next(seeds))

    altered = _flax.watched(
        output=lambda _, y: 2 * y,
        kernel_init=kernel,
        bias_init=nnx.initializers.ones,
    )
    with altered, spies.returned(look, *SPLITS, *MERGES):
        yield noted


def describe_shards(seen: same.Seen) -> dict[str, str]:
    """Describe where kernel and bias were when Linears were called."""
    held = [call.held for call in _flax.visible_calls(seen.noted)]
    return {
        name: "\n".join(
            dict.fromkeys(measures.describe_shards(a[name]) for a in held)
        )
        for name in ("kernel", "bias")
    }


EXAMPLE = "split_merge_round_trip(0.0, normal(16), 64.0)"
SMALL = "split_merge_round_trip(7.0, (9 * normal(1)).astype(int), 1.0)"
NUMBERS = "split_merge_round_trip(4294967295.0, 10 * normal(16), 64.0)"
SPOILED = [
    same.Case(
        f"split_merge_round_trip(5.0, normal(9), {features}.0)",
        "where the bias of a Linear is 1, that of a merged one "
        "(-3) ** arange(features), and a Linear returns twice its output",
        spoiled,
    )
    for features in (3, 4)  # the largest change is down, then up
]
SHARDED = same.Case(
    "split_merge_round_trip(0.0, normal(8), 32.0)",
    "where each Linear is sharded over all devices, and returns zeros",
    lambda: _flax.watched(
        # Outputs on different devices would not go together.
        init=_flax.lay_out,
        output=lambda _, y: jnp.zeros(y.shape),
    ),
)


def numbers(
    declare: Callable[..., same.Check], cases: Sequence[same.Case | str]
) -> list[same.Check]:
    """Declare that each of the three numbers must agree."""
    why = (
        "the first number is not the sum of what the model returns for x",
        "the second number is not the sum of what the merged model returns",
        "the third number is not max(abs(first output - second output))",
    )
    return [
        declare(cases, measures.entry_at(index), each)
        for index, each in enumerate(why)
    ]


CHECKS = {
    "types": same.types([EXAMPLE, SMALL]),
    **same.numbered("numbers")(numbers(same.values, [NUMBERS])),
    "round_trip": same.structure(
        SPOILED,
        lambda seen: " and ".join(sorted(seen.noted)) or "neither",
        "no model went through both nnx.split and nnx.merge",
        read="The API",
    ),
    **same.numbered("structure")(numbers(same.structure, SPOILED)),
    "moved": same.placement(
        same.without_jit(SHARDED),
        describe_shards,
        "a round trip moves no array: kernel and bias stay as they are",
        read="On eight devices",
    ),
}
# What to read when an attempt raises: words of the error, a section.
ERRORS = (
    ("number of leaves", "A state of another model"),
    ("deleted", "Donating a model that has a clone"),
)
