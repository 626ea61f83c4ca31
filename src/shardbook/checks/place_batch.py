"""What a right ``place_batch`` must show."""

from functools import partial

import jax

from shardbook import layout
from shardbook.grading import measures
from shardbook.grading.agreement import same, same_type
from shardbook.grading.cases import Case, on_meshes

BATCH = "[numpy_batch(16, 4), numpy_batch(32, 2, 3, seed=1)]"
CASES = on_meshes(f"place_batch({BATCH}, {{mesh}})")
EXAMPLE = CASES[0].call
GUARDED = Case(
    EXAMPLE,
    "where copies from one device to another are refused",
    measures.guarded_copies,
)
COUNT = jax.device_count()
ODD = Case(
    f"place_batch(numpy_batch({2 * COUNT - 1}, 4), mesh_of({COUNT}, 1))",
    under=measures.errors,
)
placement = partial(same, "placement")
CHECKS = (
    same_type(*CASES),
    same(
        "structure",
        CASES,
        measures.structure,
        "the result is not a tree of the same structure",
    ),
    same(
        "values", CASES, measures.result, "these are not the batch's rows"
    ),
    placement(
        CASES,
        measures.layouts,
        'an array is not laid out as P("data")',
        "The API",
    ),
    placement(
        f"place_batch({BATCH}, mesh_of(1, 1))",
        lambda seen: [each.committed for each in layout(seen.result)],
        "an array is not committed to the mesh",
        "Incompatible devices",
    ),
    placement(
        GUARDED,
        measures.copies,
        "the batch is put on a device first, and copied from there",
        "An array of JAX first",
    ),
    same(
        "contract",
        ODD,
        measures.refusal(),
        'a batch that "data" does not divide must be a ValueError',
    ),
)
# What to read when an attempt raises: words of the error, a section.
ERRORS = (
    ("divi(sible|de)", "Problem"),
    ("incompatible devices", "Incompatible devices"),
    ("only valid for values of rank", "The API"),
)
DEPRECATED = "Sources"
