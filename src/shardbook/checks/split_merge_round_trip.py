"""What a right ``split_merge_round_trip`` must show."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import CodeType
from typing import Any

import flax
import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.sharding import Sharding

from shardbook.grading import flax_spies, measures, spies
from shardbook.grading.agreement import same, same_type
from shardbook.grading.attempt import Crashed, solution
from shardbook.grading.cases import Case, Seen, observe
from shardbook.inputs import normal

EXAMPLE = "split_merge_round_trip(0.0, normal(16), 64.0)"
NUMBERS = "split_merge_round_trip(11.0, 10 * normal(16), 64.0)"
NAN = "split_merge_round_trip(11.0, with_nan(normal(16)), 64.0)"
DIFFERENCE = "Equal outputs, and a difference that is not zero"
SPLITS = (nnx.split, nnx.state, nnx.flatten, nnx.SplitContext.split)
MERGES = (nnx.merge, nnx.unflatten, nnx.MergeContext.merge)
# Flax calls split, state and merge on its own only to make a copy; that is
# not the attempt's round trip. The others it calls inside its transforms.
ON_REQUEST = (nnx.split, nnx.state, nnx.merge)
COPIES = {
    each.__code__ for each in (nnx.clone, nnx.map, nnx.Module.__deepcopy__)
}
FLAX = str(Path(flax.__file__).parent)


def is_real(model: nnx.Linear) -> bool:
    """Tell a Linear with arrays from one that is being traced."""
    return not isinstance(model.kernel.get_value(), jax.core.Tracer)


@contextmanager
def merged_with(bias: list[float]) -> Iterator[dict[str, Any]]:
    """Give each merged Linear this bias, and note splits and merges."""
    noted: dict[str, Any] = {"split": False, "merge": False}

    def look(function: Any, caller: CodeType, result: Any) -> None:
        wanted = function in ON_REQUEST and caller not in COPIES
        if caller.co_filename.startswith(FLAX) and not wanted:
            return
        if function in SPLITS:
            noted["split"] = True
            return
        for _, node in nnx.iter_graph(result):
            if isinstance(node, nnx.Linear):
                noted["merge"] = True
                if node.bias is not None:
                    node.bias = nnx.Param(jnp.asarray(bias))

    def tell_apart(model: nnx.Linear) -> None:
        # A second model of the same seed is not what merge made.
        if any(map(is_real, noted["watched"].built)):
            model.kernel.set_value(3 * model.kernel.get_value())

    with (
        flax_spies.watched(
            init=tell_apart,
            output=lambda _, y: 2 * y,
            # No random numbers have to be compiled for it.
            kernel_init=lambda _, shape, *rest: normal(*shape, seed=3),
            bias_init=lambda _, shape, *rest: jnp.asarray(np.ones(shape)),
        ) as noted["watched"],
        spies.returned(look, *SPLITS, *MERGES),
    ):
        yield noted


@contextmanager
def laid_out() -> Iterator[dict[str, list[str]]]:
    """Shard each Linear, and note where kernel and bias are in a call."""
    where: dict[str, list[str]] = {"kernel": [], "bias": []}

    def note(model: nnx.Linear, y: Any) -> Any:
        # Where an array is that jit made is for jit to decide.
        if any(map(is_real, watched.built)):
            for name, seen in where.items():
                array = getattr(model, name).get_value()
                if isinstance(array, jax.core.Tracer):
                    jax.debug.inspect_array_sharding(
                        array, callback=partial(note_whole, seen)
                    )
                else:
                    seen.append(measures.describe_shards(array))
        return y

    def note_whole(seen: list[str], sharding: Sharding) -> None:
        # Only the compiler knows, and it gives vmap's axes too.
        if sharding.is_fully_replicated:
            seen.append("each device holds all of it")

    with flax_spies.watched(
        init=flax_spies.lay_out, output=note
    ) as watched:
        try:
            yield where
        except Crashed:
            # Arrays of different devices do not go together.
            if all(len(set(seen)) < 2 for seen in where.values()):
                raise


SPOILED = [
    Case(
        f"split_merge_round_trip(5.0, normal(9), {len(bias)}.0)",
        f"where a Linear's bias is 1, that of a merged one {bias}, and a "
        "Linear returns twice its output",
        partial(merged_with, bias),
    )
    # The largest change adds in one and takes away in the other, so that
    # one of them shows that abs is missing.
    for bias in ([-2.0, 5.0, 1.5], [2.0, -5.0, -1.5, 0.5])
]
SHARDED = Case(
    "split_merge_round_trip(0.0, normal(8), 32.0)",
    "where Linear is sharded over all devices",
    laid_out,
)


def did(what: str) -> Callable[[Seen], str]:
    """Tell whether there was a split or a merge."""
    return lambda seen: f"{what}: {'yes' if seen.noted[what] else 'no'}"


def called(seen: Seen) -> str:
    """Tell whether a Linear was called."""
    called = bool(seen.noted["watched"].calls)
    return "a Linear's output" if called else "an array from elsewhere"


def where(name: str) -> Callable[[Seen], str]:
    """Describe where an array was that was not where the solution's is."""

    def describe(seen: Seen) -> str:
        problem = solution(seen.attempt.problem)
        right, *_ = observe(problem, seen.case).noted[name]
        others = (each for each in seen.noted[name] if each != right)
        return str(next(others, right))

    return describe


VALUES = (
    "this is not the sum of the first output: build the Linear from seed, "
    "x.shape[-1] and features, and call it on x",
    "the sum of the second output differs from that of the first",
    "the two outputs differ, but a round trip changes no number",
)
POISONED = (
    "a NaN in x reaches every output, and so the sum of the first",
    "a NaN in x reaches every output, and so the sum of the second",
    "NaN - NaN is NaN: compute the third number from the two outputs",
)
STRUCTURE = (
    "the first number is not the sum of what the model returns before the "
    "split: call the model",
    "the second number is not the sum of what the merged model returns: "
    "call what nnx.merge gave",
    "the third number is not the largest absolute difference of the two "
    "outputs, entry by entry",
)
structure = partial(same, "structure", SPOILED)
CHECKS = (
    same_type(
        EXAMPLE,
        "split_merge_round_trip(7.0, (9 * normal(16)).astype(int), 64.0)",
    ),
    *(
        same("values", NUMBERS, measures.entry(index), why)
        for index, why in enumerate(VALUES)
    ),
    *(
        same("values", NAN, measures.entry(index), why, DIFFERENCE)
        for index, why in enumerate(POISONED)
    ),
    structure(called, "no Linear was called on x"),
    structure(
        did("merge"),
        "no Linear was merged: a copy or a second model is not what comes "
        "out of nnx.merge",
        "The API",
    ),
    structure(
        did("split"),
        "the state was put together by hand: nnx.split gives it",
        "The API",
    ),
    *(
        structure(measures.entry(index), why)
        for index, why in enumerate(STRUCTURE)
    ),
    *(
        same(
            "placement",
            SHARDED,
            where(name),
            f"the {name} lost its layout: a round trip moves no array",
            "On eight devices",
        )
        for name in ("kernel", "bias")
    ),
)
# What to read when an attempt raises: words of the error, a section.
ERRORS = (
    ("Expected a GraphDef", "The API"),
    (
        "contracting dimensions|incompatible shapes",
        "A state of another model",
    ),
    ("'State' object is not callable", "The API"),
    ("deleted or donated", "Donating one twin"),
)
DEPRECATED = "What changed since the source"
