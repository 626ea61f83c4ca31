"""What a right ``fsdp_step`` must show."""

from shardgrade.grading import measures, same

MAKE = "fsdp_step(squared_error, FSDP_SPECS, {mesh}, "
PARAMS = "laid_out(mlp_params(16, 40, 24), FSDP_SPECS, {mesh}), "
STEP = f"{PARAMS}examples(16, 16, 24, {{mesh}})"
# Other trees, loss and rate, with all devices along "data".
OTHER = same.on_meshes(
    "fsdp_step(scaled_error, SCALED_SPECS, {mesh}, 0.125)("
    "laid_out([normal(16, 3), normal()], SCALED_SPECS, {mesh}), "
    "tuple(examples(8, 16, 3, {mesh}).values()))",
    programs=True,
)[-2]
CASES = [*same.on_meshes(f"{MAKE}0.3)({STEP})", programs=True), OTHER]
# Of all cases, this one alone has this rate.
REPEATED = same.on_meshes(
    f"{MAKE}0.25)",
    step=STEP,
    then=f"{PARAMS}examples(24, 16, 24, {{mesh}})",
    given="where the next two calls take the parameters of the one before, "
    "and a fourth takes the first parameters again, and 24 examples",
    carry=True,
)[-2]
EXAMPLE = CASES[0].call
WRONG = "these are not the parameters after a step and the loss before"
LAYOUT = "the parameters are not sharded by specs, or the loss by P()"
LATER = (
    "a later call returns other parameters, or another loss, than its "
    "arguments and the rate give"
)
NOWHERE = "no program runs on the mesh: the host or one device does it all"
KEPT = "the old parameters stay in memory after a step: donate them"
COMPILED = "a later call was compiled again: compile the step once, outside"
BYTES = "Bytes that a device sends"
# What a device sends, by kind, and what is right.
TALK = (
    (
        "reduce-scatter",
        "the gradients of shards need reduce-scatters; under jit alone, "
        "XLA for CPUs makes none; for GPUs, it does",
        "The same under `jit`",
    ),
    ("all-gather", "each sharded array needs one all-gather", BYTES),
    (
        "(?!reduce-scatter|all-gather)",
        "only the loss and the gradients of unsharded arrays are "
        "all-reduced",
        BYTES,
    ),
)
CHECKS = {
    "types": same.types(CASES),
    "wrong": same.values(CASES, measures.result, WRONG),
    "layout": same.placement(
        CASES, measures.shards, LAYOUT, read="The API"
    ),
    "nowhere": same.placement(
        CASES, measures.runs_on_mesh, NOWHERE, read="The API"
    ),
    "whole": same.memory(
        CASES,
        measures.argument_bytes,
        "a program takes more than twice the bytes of a device's shards",
        # A program for the update takes the gradients too.
        agree=same.AtMost(2, "bytes of arguments on a device"),
        read="Arrays that stay whole",
    ),
    **same.numbered("sent")(
        same.communication(
            CASES, measures.sent_by_kind(kinds), why, read=read
        )
        for kinds, why, read in TALK
    ),
    "later": same.values(REPEATED, measures.step_results, LATER),
    "kept": same.placement(
        REPEATED, measures.step_kept("0"), KEPT, read="The API"
    ),
    "compiled": same.structure(
        REPEATED, measures.step_compilations, COMPILED
    ),
}
