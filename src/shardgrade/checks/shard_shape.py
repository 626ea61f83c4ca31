"""What a right ``shard_shape`` must show."""

from functools import partial

import jax
from jax.sharding import Sharding

from shardgrade.grading import measures, same, spies

ASKS = "the call asks a sharding: compute the shape yourself"
CASES = same.on_meshes(
    'shard_shape((16, 24), P("data", "model"), {mesh})',
    'shard_shape((4, 16, 5), P(None, "data"), {mesh})',
    'shard_shape((0, 16), P("data", "model"), {mesh})',
    # No device could hold an array of this size.
    'shard_shape((2**60, 5), P(("model", "data")), {mesh})',
    under=partial(spies.forbidden, Sharding, "shard_shape", ASKS),
)
EXAMPLE = CASES[0].call
N = jax.device_count()
WIDE = 3 * N // 2
LONG = "the spec has more entries than the array has dimensions"
NO_AXIS = "the mesh has no axis of a name in the spec"
TWICE = "the spec names a mesh axis twice"
# What must be refused, why, and what the message must name.
MISTAKES = (
    ('(16, 16), P("data", None, None)', LONG, "3 2"),
    ('(16, 16), P(("data", "modle"))', NO_AXIS, "modle data model"),
    ('(16, 16), P("model", ("data", "model"))', TWICE, "model"),
    ('(16, 16), P(("data", "data"))', TWICE, "data"),
    (
        f'(7, {WIDE}), P(None, ("data", "model"))',
        "the devices don't divide a size",
        f"{WIDE} {N} data model",
    ),
)
CHECKS = {
    "shape": same.values(
        CASES,
        measures.as_list,
        "this is not the shape of a shard",
        read="One axis, several or none",
    ),
    "tuple": same.contract(
        CASES, measures.class_name, "the result is not a tuple"
    ),
    **same.numbered("mistake")(
        same.refusal(
            f"shard_shape({each}, mesh_of(2, {N // 2}))",
            f"{why}: raise a ValueError that names what the page asks for",
            read="Four mistakes",
            names=words,
        )
        for each, why, words in MISTAKES
    ),
}
# What to read when an attempt raises: words of the error, a section.
ERRORS = (("", "One axis, several or none"),)
