"""What a right ``place_state`` must show."""

from shardbook.grading import measures
from shardbook.grading.agreement import same, same_type
from shardbook.grading.cases import Case, on_meshes


def calls(arguments: str) -> list[str]:
    """Give a call for each mesh: the last has one device on "data"."""
    return [each.call for each in on_meshes(f"place_state({arguments})")]


CASES = calls("committed(vision(16, 8)), {mesh}, RULES")
EXAMPLE = CASES[0]
ORDER = calls("mlp(8, 16, 8), {mesh}, [('up', P('data')), *RULES]")
# What must be refused, and paths that the message must have.
REFUSED = {
    "vision(16, 8), {mesh}, RULES[:-1]": "norm.var dropout.rngs.key",
    "mlp(8, 15, 8), {mesh}, RULES": "up.kernel down.kernel",
    "mlp(8, 8, 8), {mesh}, [('.*', P(None, 'data'))]": "up.bias down.bias",
    "mlp(8, 8, 8), {mesh}, [('.*', P(('data', 'data')))]": "up.bias",
    "mlp(8, 8, 8), {mesh}, [('.*', P('modle'))]": "up.bias down.kernel",
    "mlp(8, 8, 8), {mesh}, [('.*', P('data', None))]": "up.bias down.bias",
}
CHECKS = (
    same_type(*CASES),
    same("values", CASES, measures.result, "an array has other values"),
    same(
        "structure",
        calls("twice(mlp(8, 16, 8)), {mesh}, RULES"),
        lambda seen: " ".join(measures.layouts(seen)),
        "a layer that the model has twice is two layers in the result",
        "A map over the Module",
    ),
    same(
        "placement",
        CASES,
        measures.argument_layouts,
        "the model that was passed in has changed",
        "Writing to the state",
    ),
    same(
        "placement",
        CASES + ORDER,
        measures.layouts,
        "an array is not laid out by the first rule for its whole path",
        "The API",
    ),
    *(
        same(
            "contract",
            Case(calls(arguments)[-1], under=measures.errors),
            measures.refusal(*paths.split()),
            "a ValueError must name each array that can't be laid out",
        )
        for arguments, paths in REFUSED.items()
    ),
)
# What to read when an attempt raises: words of the error, a section.
ERRORS = (("rank|divi(sible|de)", "Problem"), ("State|Key", "The API"))
DEPRECATED = "Sources"
