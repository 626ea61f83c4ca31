"""What a right ``fsdp_step`` must show."""

from functools import partial
from operator import ge

from shardbook.grading import measures
from shardbook.grading.agreement import Rival, same, same_type
from shardbook.grading.cases import Case, on_meshes
from shardbook.problems.fsdp_step import fsdp_step

SUM = "A gradient that is eight times too large"
MLP = on_meshes(
    "fsdp_step(squared_error, FSDP_SPECS, {mesh}, 0.5)("
    "laid_out(mlp_params(16, 40, 24), FSDP_SPECS, {mesh}), "
    "examples(16, 16, 24, {mesh}))"
)
# Another tree, loss and rate, with all devices along "data".
OTHER = on_meshes(
    "fsdp_step(scaled_error, SCALED_SPECS, {mesh}, 0.125)("
    "laid_out([normal(16, 3), normal()], SCALED_SPECS, {mesh}), "
    "examples(8, 16, 3, {mesh}))"
)[-2]
CASES = [*MLP, OTHER]
MAKE, STEP = (
    each[-2].call
    for each in (
        on_meshes("fsdp_step(squared_error, FSDP_SPECS, {mesh}, 0.5)"),
        on_meshes(
            "laid_out(mlp_params(16, 40, 24), FSDP_SPECS, {mesh}), "
            "examples(16, 16, 24, {mesh})"
        ),
    )
)
REPEATED = Case(
    MAKE, "where each step takes the new parameters", step=STEP, carry=True
)
EXAMPLE = CASES[0].call
added = Rival(
    lambda loss, specs, mesh, rate: fsdp_step(
        loss, specs, mesh, rate * mesh.shape["data"]
    ),
    "the gradients of the devices are added, not averaged",
    SUM,
)
placement = partial(same, "placement", CASES)
wrong = "these are not the parameters after a step, and the loss before"
layout = "the parameters are not laid out by specs, or the loss by P()"
whole = "a program takes more on a device than twice its shards"
kept = "the new parameters do not take the memory of the old ones"
again = "a later call was compiled again: compile the step once, outside"
sent = "it takes one all-gather and one reduce-scatter of each array"
CHECKS = (
    same_type(*CASES),
    same("values", CASES, measures.result, wrong, "Problem", added),
    placement(measures.shards, layout),
    placement(measures.donated, kept, agree=ge),
    placement(
        measures.argument_bytes,
        whole,
        # A program for the update takes the gradients too.
        agree=lambda found, wanted: found <= 2 * wanted,
    ),
    same(
        "communication",
        CASES,
        measures.sent,
        sent,
        "Bytes that a device sends",
    ),
    same("structure", REPEATED, measures.step_compilations, again),
)
# What to read when an attempt raises: words of the error, a section.
ERRORS = (
    ("divi(sible|de)", "A size that the mesh does not divide"),
    ("replicat|vma", "The API"),
    ("dot_general|contract|broadcast|shape", "The API"),
)
DEPRECATED = "Sources"
