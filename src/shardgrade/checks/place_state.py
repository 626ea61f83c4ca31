"""What a right ``place_state`` must show."""

import jax

from shardgrade.grading import measures, same


def cases(arguments: str) -> list[same.Case]:
    """Give a call for each mesh: the last has one device on "data"."""
    return same.on_meshes(f"place_state({arguments})")


# All but keys and counts, which have no dimensions, is sharded somewhere.
NORM = "[('norm.*', P('model')), *RULES, ('norm.*', P('data'))]"
CASES = cases(f"committed(vision(16, 8)), {{mesh}}, {NORM}")
EXAMPLE = CASES[0].call
ORDER = cases("mlp(8, 16, 8), {mesh}, OVERLAPPING")
VISION, SMALL = "vision(16, 8), {mesh}", "mlp(8, 8, 8), {mesh}"
KEY, COUNT = "dropout.rngs.key", "dropout.rngs.count"
KERNELS, BIASES = "up.kernel down.kernel", "up.bias down.bias"
# What must be refused and why, paths that the message must have, and paths
# that it must not have.
REFUSED = (
    # A later rule would fit, but the first counts.
    (
        f"{SMALL}, [('.*', P('data', None)), ('.*', P())]",
        "a spec has more entries than its array has dimensions",
        BIASES,
        KERNELS,
    ),
    (
        f"{VISION}, RULES[:-1]",
        "no rule matches some arrays, one of them a scalar",
        f"norm.var {KEY}",
        "conv.kernel",
    ),
    (
        f"{VISION}, [('dropout.*', P(None)), *RULES]",
        "the spec of a scalar has an entry",
        f"{KEY} {COUNT}",
        "norm",
    ),
    (
        # Each axis divides it, but not both.
        f"mlp(8, {3 * jax.device_count() // 2}, 8), {{mesh}}, "
        "[('up.bias|down.kernel', P(('data', 'model'))), ('.*', P())]",
        "the devices do not divide a size",
        "up.bias down.kernel",
        "up.kernel down.bias",
    ),
    # The down.bias has no rule, and to the others theirs does not fit.
    (
        f"{SMALL}, [('up.kernel', P('modle')), ('.*kernel', "
        "P('data', 'data')), ('up.bias', P(('data', 'data')))]",
        "a spec names an axis twice, or one that the mesh doesn't have",
        f"{KERNELS} {BIASES}",
        "",
    ),
)
CHECKS = {
    "types": same.types(CASES),
    "values": same.values(
        CASES, measures.result, "the values of an array have changed"
    ),
    "twice": same.structure(
        cases("twice(mlp(8, 16, 8)), {mesh}, RULES"),
        measures.paths,
        "a layer that occurs twice in the model became two layers: map "
        "over the state, not over the Module",
        read="A map over the Module",
    ),
    "argument": same.placement(
        CASES,
        measures.argument_layouts,
        "the model that was passed in has changed; note that its state "
        "shares its Variables",
    ),
    "rules": same.placement(
        CASES + ORDER,
        measures.result_layouts,
        "an array is not sharded by the first rule that matches its whole "
        "path",
        read="The API",
    ),
    "mesh": same.placement(
        cases("mlp(8, 16, 8), backwards({mesh}), RULES"),
        measures.result_layouts,
        "place the arrays on the mesh that is passed in, whose devices are "
        "in reverse order",
    ),
    **same.numbered("refused")(
        same.refusal(
            cases(arguments)[0],
            f"{why}: a ValueError must name each array that can't be "
            "placed, and no other",
            names=paths,
            never=others,
        )
        for arguments, why, paths, others in REFUSED
    ),
}
