"""What a right ``clip_local`` must show."""

import jax

from shardgrade.grading import measures, same

# What a device may send, in bytes: a few float32 scalars.
MOST = 64
# Two roundings to bfloat16.
ROUNDED = same.Near([2**-6], of_each=True)


def clips(limit: float, tree: str, specs: str = "GRADIENT_SPECS") -> str:
    """Write a call."""
    return f"in_shard_map(clip_local, {specs}, {{mesh}}, {limit})({tree})"


def write_call(shapes: str, *specs: str) -> str:
    """Write a call with an array for each spec, sharded over all axes."""
    return clips(
        0.25,
        f"[normal({shapes}), normal({shapes}, seed=1)]",
        f"[{', '.join(f'P({spec})' for spec in specs)}]",
    )


MIXED = same.on_meshes(clips(1.0, "gradients(1.0)"), programs=True)
ALL = "('data', 'model')"
# In these, nothing tells shard_map of a missing sum.
NAMES = same.on_meshes(
    write_call("16, 8", "'data', 'model'", "'model', 'data'")
)[:2]
TUPLES = same.on_meshes(write_call("16, 8", ALL, f"None, {ALL}"))[:1]
COUNT = jax.device_count()
HALF = COUNT // 4 or 1
OTHER_NAMES = same.Case(
    write_call("8, 8, 8", "'a', 'b', 'c'", "'c', 'a', 'b'").replace(
        "{mesh}",
        f"mesh_of(2, {HALF}, {COUNT // 2 // HALF}, names='abc')",
    )
)
EXAMPLE = MIXED[0].call
# The meshes are tried above: for what follows, one is enough.
SMALL = same.on_meshes(clips(1.0, "gradients(0.01)"))[:1]
# Below the limit on each device, and above it in all.
BETWEEN = same.on_meshes(clips(25.0, "gradients(1.0)"))[:1]
BFLOAT16 = same.on_meshes(clips(1.0, "gradients(1.0, 'bfloat16')"))[:1]
# A sum in bfloat16 gets stuck at 128, where adding 0.45 changes nothing.
MANY = same.on_meshes(
    clips(
        1.0,
        "[normal(4).astype('bfloat16') * n for n in (17, *[1] * 60)]",
        "[P()] * 61",
    )
)[:1]
# An all-reduce for each array is one of 20 numbers, once XLA has combined
# them.
SPREAD = same.on_meshes(
    clips(1.0, "[normal(8)] * 20", f"[P({ALL})] * 20"), programs=True
)[:1]
ZERO = same.on_meshes(clips(1.0, "gradients(0.0)"))[:1]
NAN = "{'embed': with_nan(normal(32, 8))}"
WITH_NAN = same.on_meshes(clips(1.0, f"gradients(1.0) | {NAN}"))[:1]
WRONG = "these are not the gradients, clipped by the norm of all of them"
ENTRIES = f"{WRONG}: an entry of a spec can be a tuple of names"
AXES = f"{WRONG}: the mesh has the axes that axes names"
KEPT = "the norm is below the limit, and the gradients have changed"
NARROW = (
    "the norm of bfloat16 gradients is not in float32: convert them before "
    "they are squared"
)
HIDDEN = "one gradient is NaN, and others are not NaN after clipping"
NOTHING = "the gradients are zero, and are not zero after clipping"
LOW = "A norm in bfloat16"
CHECKS = {
    "wrong": same.values(NAMES, measures.result, WRONG),
    "entries": same.values(TUPLES, measures.result, ENTRIES),
    "axes": same.values(OTHER_NAMES, measures.result, AXES),
    "types": same.types([*MIXED, *BFLOAT16]),
    "wrong_2": same.values([*MIXED, *BETWEEN], measures.result, WRONG),
    "kept": same.values(SMALL, measures.result, KEPT),
    "nothing": same.values(
        ZERO, measures.result, NOTHING, read="A NaN that spreads"
    ),
    "hidden": same.values(
        WITH_NAN, measures.result, HIDDEN, read="A NaN that spreads"
    ),
    "narrow": same.values(
        MANY, measures.result, NARROW, read=LOW, agree=ROUNDED
    ),
    "much": same.communication(
        [*MIXED, *SPREAD],
        measures.bytes_sent,
        "a device sends more than a few sums: first add up the squares of "
        "all its arrays that are sharded over the same axes",
        agree=same.AtMost(0, same.SENT, more=MOST),
    ),
}
# What to read when an attempt raises: words of the error, a section.
ERRORS = (
    ("varying|require replication|check_vma", "The norm of a device"),
)
