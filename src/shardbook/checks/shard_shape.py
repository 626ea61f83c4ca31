"""What a right ``shard_shape`` must show."""

from functools import partial

import jax
import numpy as np
from jax.sharding import Sharding

from shardbook.grading import measures
from shardbook.grading.agreement import same
from shardbook.grading.cases import Case, on_meshes
from shardbook.grading.spies import replaced

UNASKED = partial(replaced, Sharding, "shard_shape", None)
CASES = [
    Case(each.call, "where no sharding has a shard_shape", UNASKED)
    for each in (
        *on_meshes('shard_shape((16, 24), P("data", "model"), {mesh})'),
        # No device could hold an array of this size.
        *on_meshes('shard_shape((2**60, 5), P(("model", "data")), {mesh})'),
    )
]
EXAMPLE = CASES[0].call
N = jax.device_count()
WIDE, GRID = 3 * N // 2, f"mesh_of(2, {N // 2})"
# What must be refused, and what the message must name.
MISTAKES = (
    ('(16, 16), P("data", None, None)', "3 2"),
    ('(16, 16), P("modle")', "modle data model"),
    ('(16, 16), P(("data", "modle"))', "modle data model"),
    ('(16, 16), P("data", "data")', "data"),
    ('(16, 16), P("model", ("data", "model"))', "model"),
    ('(35, 7), P("data")', "35 2 data"),
    (f'({WIDE}, 7), P(("data", "model"))', f"{WIDE} {N} data model"),
)
CHECKS = (
    same(
        "values",
        CASES,
        lambda seen: np.asarray(seen.result).tolist(),
        "this is not the shape of a shard",
        "One axis, several or none",
    ),
    *(
        same(
            "contract",
            Case(f"shard_shape({each}, {GRID})", under=measures.errors),
            measures.refusal(*words.split()),
            "a ValueError must say what is wrong with the spec",
            "Four mistakes",
        )
        for each, words in MISTAKES
    ),
)
# What to read when an attempt raises: words of the error, a section.
ERRORS = (
    ("not callable|[Mm]emory|[Oo]verflow", "Problem"),
    ("", "One axis, several or none"),
)
DEPRECATED = "Sources"
