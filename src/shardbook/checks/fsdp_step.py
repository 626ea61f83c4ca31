"""What a right ``fsdp_step`` must show."""

from operator import ge

from shardbook.grading import measures, same
from shardbook.grading.cases import on_meshes
from shardbook.problems.fsdp_step import fsdp_step

MAKE = "fsdp_step(squared_error, FSDP_SPECS, {mesh}, 0.5)"
STEP = (
    "laid_out(mlp_params(16, 40, 24), FSDP_SPECS, {mesh}), "
    "examples(16, 16, 24, {mesh})"
)
# Another tree, loss and rate, with all devices along "data".
OTHER = on_meshes(
    "fsdp_step(scaled_error, SCALED_SPECS, {mesh}, 0.125)("
    "laid_out([normal(16, 3), normal()], SCALED_SPECS, {mesh}), "
    "examples(8, 16, 3, {mesh}))",
    programs=True,
)[-2]
CASES = [*on_meshes(f"{MAKE}({STEP})", programs=True), OTHER]
AGAIN = "where each step takes the new parameters"
REPEATED = on_meshes(MAKE, step=STEP, given=AGAIN, carry=True)[-2]
EXAMPLE = CASES[0].call
ADDED = same.Rival(
    lambda loss, specs, mesh, rate: fsdp_step(
        loss, specs, mesh, rate * mesh.shape["data"]
    ),
    "the gradients of the devices are added, not averaged",
    "A gradient that is eight times too large",
)
WRONG = "these are not the parameters after a step, and the loss before"
LAYOUT = "the parameters are not laid out by specs, or the loss by P()"
KEPT = "the new parameters do not take the memory of the old ones"
WHOLE = "a program takes more on a device than twice its shards"
TALK = "it takes one all-gather and one reduce-scatter of each array"
LATER = "a later call was compiled again: compile the step once, outside"
CHECKS = (
    same.types(CASES),
    same.values(CASES, measures.result, WRONG, "Problem", ADDED),
    same.placement(CASES, measures.shards, LAYOUT),
    same.placement(CASES, measures.donated, KEPT, agree=ge),
    same.placement(
        CASES,
        measures.argument_bytes,
        WHOLE,
        # A program for the update takes the gradients too.
        agree=lambda found, wanted: found <= 2 * wanted,
    ),
    same.communication(
        CASES, measures.sent, TALK, "Bytes that a device sends"
    ),
    same.structure(REPEATED, measures.step_compilations, LATER),
)
# What to read when an attempt raises: words of the error, a section.
ERRORS = (
    ("divi(sible|de)", "A size that the mesh does not divide"),
    ("replicat|vma", "The API"),
    ("dot_general|contract|broadcast|shape", "The API"),
)
