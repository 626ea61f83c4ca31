"""What a right ``megatron_mlp`` must show."""

import re

from shardgrade.grading import measures, same


def constants(seen: same.Seen) -> str:
    """Describe the arrays that are constants of a program."""
    found = [
        array
        for each in same.compiled_programs(seen.attempt, seen.case)
        if measures.is_spread(each)
        # Those of the reader: the compiler makes some of integers.
        for array in re.findall(
            r"= (b?f\d+\[\d[\d,]*\])\S* constant\(", each.text
        )
    ]
    return "\n".join(dict.fromkeys(found)) or "no arrays"


CASES = same.on_meshes(
    "megatron_mlp(committed(mlp_params(16, 40, 24)), "
    "committed(normal(8, 16)), {mesh})",
    programs=True,
)
EXAMPLE = CASES[0].call
WRONG = "this is not gelu(x @ up + b) @ down + b, with jax.nn.gelu"
LAYOUT = 'the output is not sharded as P("data")'
NOWHERE = "no program runs on the mesh: place params and x on it first"
CONSTANT = "a program holds arrays as constants: pass them as arguments"
TALK = (
    'the MLP needs one all-reduce over "model" and nothing else, if "up" '
    'is sharded by its columns and "down" by its rows'
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
    "large": same.memory(
        CASES,
        measures.argument_bytes,
        'a device gets more than its part: shard the batch over "data", '
        'both kernels and the bias of "up" over "model"',
        read="On eight devices",
        agree=same.AtMost(1, "bytes of arguments on a device"),
    ),
    "constant": same.placement(CASES, constants, CONSTANT),
    "talk": same.communication(
        CASES, measures.collectives, TALK, read="On eight devices"
    ),
}
# What to read when an attempt raises: words of the error, a section.
ERRORS = (
    ("varying|replicat|vma", "A `psum` that is misplaced or missing"),
)
