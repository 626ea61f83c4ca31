"""What a right ``restore_onto`` must show."""

from functools import partial
from typing import Any

import jax

from shardbook import layout
from shardbook.grading import measures
from shardbook.grading.agreement import same, same_type, within
from shardbook.grading.attempt import arguments
from shardbook.grading.cases import Case, Seen

SAVED = "checkpoint(dropout_mlp, 16, 40, 24)"
BUILD = "too_large(dropout_mlp, 16, 40, 24, 1)"
REST = '(".*kernel", P("data")), (".*", P())'
# The first pattern matches no whole path.
ROWS = f'[(".*up", P("model")), {REST}]'
COLUMNS = f'[(".*up.kernel", P(None, "model")), {REST}]'


def onto(data: int, model: int, rules: str = ROWS, **more: Any) -> Case:
    """Give a call that restores a checkpoint onto a mesh."""
    of, build = more.pop("of", SAVED), more.pop("build", BUILD)
    mesh = f"mesh_of({data}, {model})"
    return Case(f"restore_onto({of}, {build}, {mesh}, {rules})", **more)


def made(seen: Seen) -> str:
    """Say whether a program makes more on a device than its shards."""
    shards = layout(seen.result).bytes_per_device
    # The compiler adds some bytes of its own to each result.
    whole = measures.result_bytes(seen) > 1.5 * shards
    return "more than the shards of a device" if whole else "no more"


COUNT = jax.device_count()
MESHES = ((COUNT, 1), (COUNT // 2, 2, COLUMNS), (COUNT // 2, 1))
CASES = [onto(*each) for each in MESHES]
EXAMPLE = CASES[0].call
# What is compiled to save the checkpoint is no program of an attempt.
arguments(EXAMPLE)
refused = partial(onto, COUNT, 1, under=measures.errors)
# Of two arrays, Orbax would still read one, and print errors later.
WIDER = refused(
    of="checkpoint(linear, 16, 40)", build="too_large(linear, 16, 48)"
)
RENAMED = refused(build="lambda: twice(dropout_mlp(16, 40, 24))")
placement, contract = partial(same, "placement"), partial(same, "contract")
CHECKS = (
    same_type(*CASES),
    same("values", CASES, measures.result, "an array has other numbers"),
    placement(CASES, measures.layouts, "an array has another layout"),
    placement(
        [onto(*each, under=measures.orbax_reads) for each in MESHES],
        measures.noted_lines,
        "an array is read in another layout, and moved afterwards",
        "The API",
        agree=within,
    ),
    placement(
        CASES[0],
        made,
        "a program makes whole arrays: nnx.eval_shape gives the structure "
        "of a model without them",
        "On eight devices",
    ),
    placement(
        onto(COUNT, 1, under=measures.guarded_copies),
        measures.copies,
        "an array is put on one device, and copied from there",
    ),
    contract(
        (WIDER, RENAMED),
        measures.refusal(),
        "a checkpoint of another model must be a ValueError",
    ),
    contract(
        refused(of=f"truncated({SAVED})"),
        lambda seen: "an error" if seen.noted else "no error",
        "a checkpoint that is damaged must be an error",
    ),
)
# What to read when an attempt raises: words of the error, a section.
ERRORS = (
    ("too large for one device", "On eight devices"),
    ("Topology mismatch", "The API"),
    (r"layers\.1:\n *- Source: MISSING", "On eight devices"),
    ("structures do not match|^AssertionError", "A plain dict or a Module"),
)
DEPRECATED = "Sources"
