"""What a right ``megatron_mlp`` must show."""

from functools import partial
from operator import le

from shardbook.grading import measures
from shardbook.grading.agreement import Rival, same, same_type
from shardbook.grading.cases import on_meshes
from shardbook.problems.megatron_mlp import mlp

CASES = on_meshes(
    "megatron_mlp(committed(mlp_params(16, 40, 24)), "
    "committed(normal(8, 16)), {mesh})"
)
EXAMPLE = CASES[0].call
placement = partial(same, "placement", CASES)
CHECKS = (
    same_type(*CASES),
    same(
        "values",
        CASES,
        measures.result,
        "this is not gelu(x @ up + b) @ down + b, with jax.nn.gelu",
        "Problem",
        Rival(
            lambda params, x, mesh: (
                mlp(params, x)
                + (mesh.shape["model"] - 1) * params["down"]["bias"]
            ),
            'the bias of "down" was added once on each device of "model"',
            "A bias in each term",
        ),
    ),
    placement(
        measures.shards,
        'the output is not laid out as P("data")',
        "The API",
    ),
    placement(
        lambda seen: measures.argument_bytes(seen) > 0,
        "no program runs on the mesh: lay out params and x before they are "
        "multiplied",
        "The API",
    ),
    placement(
        measures.argument_bytes,
        'a device takes more than its part: shard the batch over "data", '
        'both kernels and the bias of "up" over "model"',
        "On eight devices",
        agree=le,
    ),
    placement(
        measures.constants,
        "arrays are constants of a program: pass them as arguments",
    ),
    same(
        "communication",
        CASES,
        measures.collectives,
        'one all-reduce over "model" is all that the MLP needs',
        "On eight devices",
    ),
)
# What to read when an attempt raises: words of the error, a section.
ERRORS = (
    ("divi(sible|de)", "A size that the mesh does not divide"),
    ("varying|replicat|vma", "A `psum` that is forgotten"),
    ("device_put inside jit", "`device_put` inside `jit`"),
    ("passed to jit does not match", "Arrays that are committed"),
    ("output sharding|out_sharding", "A mesh of Explicit axes"),
    ("only valid for values of rank", "The API"),
)
DEPRECATED = "Sources"
