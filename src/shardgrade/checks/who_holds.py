"""What a right ``who_holds`` must show."""

from shardgrade.grading import measures, same

ARRAYS = (
    'normal(16, 24), P("data", "model"), {mesh}), (9, 14)',
    # The first element of a slice.
    'normal(16, 24), P("data", "model"), {mesh}), (8, 12)',
    # The values of equal elements do not tell where one is.
    '0 * normal(16, 24), P("model"), {mesh}), (-1, -24)',
    'normal(16, 8), P("data"), backwards({mesh})), (3, -8)',
    'normal(1, 16, 8), P(None, "model"), {mesh}), (0, 9, 0)',
    "normal(), P(), {mesh}), ()",
)
CALLS = [f"who_holds(laid_out({each})" for each in ARRAYS]
PLACED = same.on_meshes(*CALLS, programs=True)
EXAMPLE = PLACED[0].call
ALONE = same.Case("who_holds(committed(normal(4)), (3,))")
OUTSIDE = [
    f"who_holds(normal(16, 8), {index})"
    for index in ((16, 0), (0, 8), (-17, 3), (15, -9))
]
SHARDED = 'who_holds(laid_out(normal(16, 8), P("data"), {mesh}), (16, 0))'


CHECKS = {
    "ids": same.values(
        [*PLACED, ALONE],
        measures.as_list,
        "these are not the ids of the devices that hold the element, in "
        "ascending order",
        read="Slices of devices",
    ),
    "programs": same.communication(
        PLACED,
        measures.programs,
        "the call computes with JAX, but asking the sharding is enough",
        read="On eight devices",
    ),
    "bounds": same.refusal(
        [*OUTSIDE, *same.on_meshes(SHARDED)],
        "a position is out of bounds: raise an IndexError",
        read="An index that is outside",
        kind=IndexError,
    ),
}
# What to read when an attempt raises: words of the error, a section.
ERRORS = (
    ("NoneType", "A slice without a start"),
    ("", "Slices of devices"),
)
