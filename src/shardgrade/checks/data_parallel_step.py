"""What a right ``data_parallel_step`` must show."""

from typing import Any

from shardgrade.grading import measures, same


def cases(
    tx: str,
    batch: str = "examples(32, 16, 16, {mesh})",
    then: str = "",
    given: str = "where the step is called three times",
) -> list[same.Case]:
    """Give three calls of a step on each mesh, and maybe a fourth."""
    optimizer = f"optimizer_on({{mesh}}, {tx})"
    both = f"counted_mlp({{mesh}}), {optimizer}"
    return same.on_meshes(
        f"data_parallel_step({both}, {{mesh}})",
        step=f"{both}, {batch}",
        then=then and f"counted_mlp({{mesh}}, seed=1), {optimizer}, {then}",
        given=given,
    )


def left(seen: same.Seen) -> dict[str, Any]:
    """Give the arrays of models and optimizers after all calls."""
    arrays = measures.step_arguments(seen)
    return {
        path: arrays[path]
        for path in arrays
        if path.removeprefix("then.")[0] in "01"
    }


def loss(seen: same.Seen) -> Any:
    """Give what the step returned as it was called first."""
    return measures.step_results(seen)[0]


CASES = cases("momentum()")
EXAMPLE = CASES[0].code
# On the mesh that has all devices along "data", two cases more.
OTHERS = cases(
    "adam()",
    "numpy_examples(32, 16, 16)",
    "numpy_examples(48, 16, 16)",
    "where the step is called three times, and a fourth time with another "
    "model, another optimizer and 48 rows",
)[-2:-1]
CASES += OTHERS
ALL = CASES + cases("adam(), sharded=True")[-2:-1]
NO_LOSS = "the step does not return the loss, a float32 scalar"
ERROR = "this is not the mean squared error of the batch before the update"
UPDATE = "the model or the optimizer has other values after the updates"
IGNORED = "the fourth call does not use its own model and batch"
DRIFT = "the sharding of an array changes in a step"
KEPT = (
    "a step leaves old arrays of the model or the optimizer in memory: "
    "donate both"
)
AGAIN = (
    "a later call was compiled again: call nnx.jit once, outside of step"
)
TALK = "a step needs one all-reduce and no more"
SHOWN = "On eight devices"
LOOP = "A step made in the loop"
CHECKS = {
    "no_loss": same.contract(
        ALL, lambda seen: same.type_of(loss(seen)), NO_LOSS
    ),
    "error": same.values(ALL, loss, ERROR),
    "ignored": same.values(
        OTHERS, lambda s: measures.step_results(s)[-1], IGNORED
    ),
    "update": same.values(ALL, left, UPDATE),
    "drift": same.placement(ALL, measures.step_shards, DRIFT, read=SHOWN),
    "kept": same.placement(
        ALL, measures.step_kept("0", "1"), KEPT, read=SHOWN
    ),
    "again": same.structure(
        ALL, measures.step_compilations, AGAIN, read=LOOP
    ),
    "talk": same.communication(
        CASES, measures.step_collectives, TALK, read=SHOWN
    ),
}
# What to read when an attempt raises: words of the error, a section.
ERRORS = (
    ("been deleted", "On eight devices"),
    ("require replication|varying", "A gradient of another size"),
    ("passed to jit does not match", "On eight devices"),
)
