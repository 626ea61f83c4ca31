"""What a right ``restore_onto`` must show."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax
import orbax.checkpoint as ocp

from shardgrade.grading import measures, same, spies
from shardscope.layouts.layout import layout

COUNT = jax.device_count()
MESHES = ((COUNT, 1), (COUNT // 2, 2), (COUNT // 2, 1))
SAVED = "checkpoint(dropout_mlp, 16, 40, 24)"
BUILD = "too_large(dropout_mlp, 16, 40, 24, 1)"
# The first pattern matches no whole path. Of those that match one, the
# last and the longest do not count.
SPECS = (
    '[(".*up", P("model")), (".*up[.]kernel", P("data", "model")), '
    '(".*kernel", P("data")), (".*bias", P("data")), '
    '(".*down[.]kernel.*", P(None, "data")), (".*bias", P()), '
    '(".*", P()), (".*up[.]kernel", P(None, "data"))]'
)


def call(
    saved: str = SAVED,
    build: str = BUILD,
    mesh: tuple[int, int] = MESHES[0],
) -> str:
    """Restore a checkpoint onto a mesh."""
    return f"restore_onto({saved}, {build}, mesh_of{mesh}, {SPECS})"


@contextmanager
def orbax_reads() -> Iterator[list[str]]:
    """Give a line for each array that Orbax restores onto devices."""
    lines: list[str] = []

    def note(_: Any, caller: Any, restored: Any) -> None:
        for leaf in same.leaves(restored).values():
            if isinstance(leaf, jax.Array):
                shard = leaf.sharding.shard_shape(leaf.shape)
                lines.append(
                    f"{same.type_of(leaf)}: a device gets {[*shard]}"
                )

    with spies.returned(note, ocp.Checkpointer.restore):
        yield lines


def noted_lines(seen: same.Seen) -> str:
    """Give the lines that were noted, each once."""
    return "\n".join(dict.fromkeys(seen.noted))


def find_whole_arrays(seen: same.Seen) -> str:
    """Say whether a program makes more on a device than its shards."""
    shards = layout(seen.result).bytes_per_device
    # The compiler adds some bytes of its own to each result.
    if any(
        each.memory.results > 1.5 * shards
        for each in same.compiled_programs(seen.attempt, seen.case)
    ):
        return "more than the shards of a device"
    return "no more"


CASES = [call(mesh=mesh) for mesh in MESHES]
EXAMPLE = CASES[0]
# Of two arrays, Orbax would still read one, and print errors later.
WIDER = call("checkpoint(linear, 16, 40)", "too_large(linear, 16, 48)")
RENAMED = call(build="lambda: twice(dropout_mlp(16, 40, 24))")
DAMAGED = call(f"truncated({SAVED})")
WHOLE = "a program makes whole arrays: nnx.eval_shape gives the structure"
MODEL = "a checkpoint of another model must raise a ValueError"
ERROR = "a damaged checkpoint must raise an error"
CHECKS = {
    "types": same.types(CASES),
    "values": same.values(
        CASES,
        measures.result,
        "the values of an array are not those of the checkpoint",
    ),
    "rules": same.placement(
        CASES,
        measures.result_layouts,
        "an array is not sharded by its rule on the mesh",
        read="A target without shardings",
    ),
    "moved": same.placement(
        CASES,
        noted_lines,
        "an array is restored in another sharding and moved afterwards",
        read="The API",
        agree=same.within,
        under=orbax_reads,
    ),
    "copied": same.placement(
        EXAMPLE,
        measures.describe_copies,
        "an array is put on one device and copied from there",
        under=measures.note_copies,
        read="On eight devices",
    ),
    "whole": same.placement(
        EXAMPLE, find_whole_arrays, WHOLE, read="On eight devices"
    ),
    "model": same.refusal([WIDER, RENAMED], MODEL, read="A renamed layer"),
    "error": same.refusal(DAMAGED, ERROR, kind=Exception),
}
# What to read when an attempt raises: words of the error, a section.
ERRORS = (
    (r"too large|layers\.1:\n *- Source: MISSING", "On eight devices"),
    ("structures do not match|^AssertionError", "On eight devices"),
)
