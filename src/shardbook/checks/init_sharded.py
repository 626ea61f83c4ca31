"""What a right ``init_sharded`` must show."""

from shardbook.grading import measures, same
from shardbook.grading.cases import Case, on_meshes


def cases(build: str, rules: str = "RULES") -> list[Case]:
    """Give a call for each mesh."""
    return on_meshes(f"init_sharded(lambda: {build}, {{mesh}}, {rules})")


# The memory of programs is compared for a model whose arrays are large.
LARGE = on_meshes(
    "init_sharded(lambda: mlp(256, 512, 256), {mesh}, RULES)", programs=True
)
EXAMPLE = LARGE[0].call
CASES = cases("vision(16, 8)")
ORDER = cases("mlp(8, 16, 8)", "[('up', P('data')), *RULES]")
CHECKS = (
    same.types(CASES),
    same.values(CASES, measures.result, "these are not build's values"),
    same.structure(
        cases("twice(mlp(8, 16, 8))"),
        measures.paths,
        "a layer that the model has twice is two layers in the result: "
        "let jit return the state, not the Module",
    ),
    same.placement(
        CASES + ORDER,
        measures.layouts,
        "an array is not laid out by the first rule for its whole path",
    ),
    same.placement(
        LARGE,
        measures.program_bytes,
        "a program makes more on a device than its shards, as a call of "
        "build outside of jit does",
        "On eight devices",
        agree=lambda got, expected: got <= 1.05 * expected,
    ),
    same.communication(
        LARGE,
        measures.collectives,
        "each device can make its own shards without the others",
    ),
    same.refusal(
        cases("mlp(8, 16, 8)", "RULES[:-1]")[0],
        "an array without a rule must be a ValueError with its path",
        names="down.bias",
    ),
)
# What to read when an attempt raises: words of the error, a section.
ERRORS = (("[Tt]racer", "A number that is read"),)
