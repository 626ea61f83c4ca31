"""What a right ``init_sharded`` must show."""

from shardgrade.grading import measures, same


def cases(build: str, rules: str = "RULES") -> list[same.Case]:
    """Give a call for each mesh."""
    return same.on_meshes(
        f"init_sharded(lambda: {build}, {{mesh}}, {rules})"
    )


# The memory of programs is compared for a model whose arrays are large.
LARGE = same.on_meshes(
    "init_sharded(lambda: mlp(256, 512, 256), {mesh}, RULES)", programs=True
)[:2]
EXAMPLE = LARGE[0].call
# All but keys and counts, which have no dimensions, is sharded somewhere.
NORM = "[('norm.*', P('model')), *RULES, ('norm.*', P('data'))]"
CASES = cases("vision(16, 8)", NORM)
# The meshes are tried above: for what follows, one is enough.
ORDER = cases("mlp(8, 16, 8)", "OVERLAPPING")[:1]
WITHOUT_A_RULE = cases("vision(16, 8)", r"[(r'(?!norm\.var).*', P())]")[0]
CHECKS = {
    "types": same.types(CASES),
    "values": same.values(
        CASES,
        measures.result,
        "the values are not those that build() returns",
    ),
    "twice": same.structure(
        cases("twice(mlp(8, 16, 8))")[:1],
        measures.paths,
        "a layer that occurs twice in the model became two layers: let "
        "jit return the state, not the Module",
        read="A Module as the result",
    ),
    "rules": same.placement(
        CASES + ORDER,
        measures.result_layouts,
        "an array is not sharded by the first rule that matches its whole "
        "path",
        read="The API",
    ),
    "memory": same.memory(
        LARGE,
        measures.program_bytes,
        "a program needs more memory on a device than it takes to make "
        "the shards",
        read="On eight devices",
        agree=same.AtMost(1.05, same.HELD),
    ),
    "no_rule": same.refusal(
        WITHOUT_A_RULE,
        "an array without a rule must raise a ValueError with its path",
        names="norm.var",
    ),
}
# What to read when an attempt raises: words of the error, a section.
ERRORS = (("[Tt]racer", "A number that is read"),)
