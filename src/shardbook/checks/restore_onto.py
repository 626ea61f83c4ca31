"""What a right ``restore_onto`` must show."""

import jax

from shardbook.grading import measures, same

COUNT = jax.device_count()
MESHES = ((COUNT, 1), (COUNT // 2, 2), (COUNT // 2, 1))
SAVED = "checkpoint(dropout_mlp, 16, 40, 24)"
BUILD = "too_large(dropout_mlp, 16, 40, 24, 1)"
# The first pattern matches no whole path. Of those that match one, the
# last and the longest do not count.
SPECS = (
    '[(".*up", P("model")), (".*up.kernel", P("data", "model")), '
    '(".*kernel", P("data")), (".*bias", P("data")), '
    '(".*down[.]kernel", P()), (".*bias", P()), (".*", P())]'
)


def call(
    saved: str = SAVED,
    build: str = BUILD,
    mesh: tuple[int, int] = MESHES[0],
) -> str:
    """Restore a checkpoint onto a mesh."""
    return f"restore_onto({saved}, {build}, mesh_of{mesh}, {SPECS})"


CASES = [call(mesh=mesh) for mesh in MESHES]
EXAMPLE = CASES[0]
# Of two arrays, Orbax would still read one, and print errors later.
WIDER = call("checkpoint(linear, 16, 40)", "too_large(linear, 16, 48)")
RENAMED = call(build="lambda: twice(dropout_mlp(16, 40, 24))")
DAMAGED = call(f"truncated({SAVED})")
WHOLE = "a program makes whole arrays: nnx.eval_shape gives the structure"
COPIED = "an array is put on one device, and copied from there"
MODEL = "a checkpoint of another model must raise a ValueError"
ERROR = "a damaged checkpoint must raise an error"
guarded = measures.guarded_copies
CHECKS = (
    same.types(CASES),
    same.values(CASES, measures.result, "an array has other values"),
    same.placement(
        CASES, measures.layouts, "an array has another sharding"
    ),
    same.placement(
        CASES,
        measures.noted_lines,
        "an array is read in another sharding and moved afterwards",
        "The API",
        agree=same.within,
        under=measures.orbax_reads,
    ),
    same.placement(EXAMPLE, measures.made_whole, WHOLE, "On eight devices"),
    same.placement(EXAMPLE, measures.copies, COPIED, under=guarded),
    same.refusal([WIDER, RENAMED], MODEL),
    same.refusal(DAMAGED, ERROR, kind=Exception),
)
# What to read when an attempt raises: words of the error, a section.
ERRORS = (
    (r"too large|layers\.1:\n *- Source: MISSING", "On eight devices"),
    ("Topology mismatch", "The API"),
    ("structures do not match|^AssertionError", "On eight devices"),
)
