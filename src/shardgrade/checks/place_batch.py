"""What a right ``place_batch`` must show."""

from dataclasses import replace

import jax

from shardgrade.grading import measures, same
from shardscope.layouts.layout import layout

BATCH = "[numpy_batch(16, 4), numpy_batch(32, 2, 3, seed=1)]"
CASES = same.on_meshes(f"place_batch({BATCH}, {{mesh}})")
EXAMPLE = CASES[0].call
COPIES = "where copies from one device to another are refused"
COUNT = jax.device_count()
ODD = f"numpy_batch({2 * COUNT - 1}, 4)"
CHECKS = {
    "types": same.types(CASES),
    "structure": same.structure(
        CASES,
        lambda seen: str(jax.tree.structure(seen.result)),
        "the result must be a tree of the same structure as the batch",
    ),
    "values": same.values(
        CASES, measures.result, "these are not the batch's rows"
    ),
    "rows": same.placement(
        CASES,
        measures.result_layouts,
        'an array is not sharded as P("data")',
        read="The API",
    ),
    "committed": same.placement(
        f"place_batch({BATCH}, mesh_of(1, 1))",
        lambda seen: [each.committed for each in layout(seen.result)],
        "an array is not committed to the mesh",
        read="Incompatible devices",
    ),
    "copies": same.placement(
        replace(CASES[0], given=COPIES),
        measures.describe_copies,
        "the batch goes to one device first and is copied from there",
        read="An array of JAX first",
        under=measures.note_copies,
    ),
    "indivisible": same.refusal(
        f"place_batch({ODD}, mesh_of({COUNT}, 1))",
        '"data" does not divide the size of the batch: raise a ValueError',
    ),
}
# What to read when an attempt raises: words of the error, a section.
ERRORS = (("incompatible devices", "Incompatible devices"),)
