"""What a right ``who_holds`` must show."""

import numpy as np

from shardbook.grading import measures
from shardbook.grading.agreement import same
from shardbook.grading.cases import Case, compiled, on_meshes

PLACED = [
    case
    for arguments in (
        'laid_out(normal(16, 24), P("data", "model"), {mesh}), (9, 14)',
        # The values of equal elements do not tell where one is.
        'laid_out(0 * normal(16, 24), P("model"), {mesh}), (-1, -24)',
        'laid_out(normal(16, 8), P("data"), backwards({mesh})), (3, -8)',
        'laid_out(normal(1, 16, 8), P(None, "model"), {mesh}), (0, 9, 0)',
        "laid_out(normal(), P(), {mesh}), ()",
    )
    for case in on_meshes(f"who_holds({arguments})")
]
EXAMPLE = PLACED[0].call
ALONE = Case("who_holds(committed(normal(4)), (3,))")
OUTSIDE = [
    Case(f"who_holds(normal(16, 8), {index})", under=measures.errors)
    for index in ((16, 0), (0, 8), (-17, 3), (15, -9))
] + [
    Case(each.call, under=measures.errors)
    for each in on_meshes(
        'who_holds(laid_out(normal(16, 8), P("data"), {mesh}), (16, 0))'
    )
]
CHECKS = (
    same(
        "values",
        (*PLACED, ALONE),
        lambda seen: np.asarray(seen.result).tolist(),
        "these are not the ids of its devices, in ascending order",
        "Slices of devices",
    ),
    same(
        "communication",
        PLACED,
        lambda seen: (
            f"{len(compiled(seen.attempt, seen.case))} programs, "
            "with those that make the array"
        ),
        "it computes something, and the sharding is enough",
        "On eight devices",
    ),
    same(
        "contract",
        OUTSIDE,
        measures.refusal(kind=IndexError),
        "a position is outside of its axis: raise an IndexError",
        "An index that is outside",
    ),
)
# What to read when an attempt raises: words of the error, a section.
ERRORS = (
    ("NoneType", "A slice without a start"),
    ("", "Slices of devices"),
)
DEPRECATED = "Sources"
