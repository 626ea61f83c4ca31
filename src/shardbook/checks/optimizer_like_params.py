"""What a right ``optimizer_like_params`` must show."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from shardbook.grading import measures
from shardbook.grading.agreement import same
from shardbook.grading.cases import Case, Seen, by_path, on_meshes

SHARDED = "counted_mlp({mesh}, sharded=True)"
REPLICATED = "counted_mlp({mesh})"


def cases(tx: str, model: str = SHARDED) -> list[Case]:
    """Give a call on each mesh for one transformation."""
    call = f"optimizer_like_params({model}, {tx}(), {{mesh}})"
    return [replace(case, programs=False) for case in on_meshes(call)]


def kinds(seen: Seen) -> str:
    """Describe the type of the result, and its arrays."""
    return f"{type(seen.result).__name__}\n{measures.types(seen)}"


def places(scalar: bool, seen: Seen) -> dict[str, str]:
    """Describe where the scalars are, or all other arrays."""
    return {
        path: measures.describe_shards(leaf)
        for path, leaf in by_path(seen.result).items()
        if (np.ndim(leaf) == 0) == scalar
    }


def tx_of(seen: Seen) -> Any:
    """Give the transformation: with another, a step is traced anew."""
    return seen.result.tx


ADAM, FACTORS, SHAPES = map(cases, ("adam", "adafactor", "from_shapes"))
ADAM += cases("adam", f"modules({SHARDED}, {REPLICATED})")
ALL = [*ADAM, *FACTORS, *SHAPES]
EXAMPLE = ADAM[0].call
scalars, arrays = partial(places, True), partial(places, False)
NO_OPTIMIZER = "this is not nnx.Optimizer(model, tx, wrt=nnx.Param)"
NO_START = "this is not how the state of an optimizer starts"
COUNT = "a count is not replicated over the mesh"
MOMENT = "a moment is not laid out as its parameter"
ZEROS = "a moment that jnp.zeros made is not laid out as its parameter"
NO_TX = "the tx of the optimizer is another object: a step is traced anew"
OTHER = "an array of another shape than its parameter is not replicated"
CHECKS = (
    same("contract", ALL, kinds, NO_OPTIMIZER, "The API"),
    same("values", ALL, measures.result, NO_START, "Problem"),
    same("placement", ALL, scalars, COUNT, "A count on one device"),
    same("placement", ADAM, arrays, MOMENT, "The API"),
    same("placement", SHAPES, arrays, ZEROS, "A count on one device"),
    same("placement", FACTORS, arrays, OTHER),
    same("structure", ADAM, tx_of, NO_TX),
)
# What to read when an attempt raises: words of the error, a section.
ERRORS = (
    ("evenly divide|rank|dimensions", "Problem"),
    ("mesh context or metadata", "Annotated Variables"),
    ("`wrt`|has no attribute 'init'", "The API"),
)
DEPRECATED = "Sources"
