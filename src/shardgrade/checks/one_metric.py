"""What a right ``one_metric`` must show, in each of two processes."""

from shardgrade.grading import measures, same

CASES = [
    *same.on_meshes(
        'one_metric(spread(numpy_rows(64), P("data"), {mesh}), {mesh})'
    ),
    *same.on_meshes(
        "one_metric(spread(numpy_rows(16, 8, 3, dtype='int32'), "
        'P("data", "model"), {mesh}), {mesh})'
    ),
    *same.on_meshes(
        "one_metric(spread(numpy_rows(64, 2, dtype='bfloat16'), "
        'P(("data", "model")), {mesh}), {mesh})'
    ),
    *same.on_meshes(
        "one_metric(spread(numpy_rows(8), P(), {mesh}), {mesh})"
    )[:1],
]
EXAMPLE = CASES[0].call
# A mean of the shards over "data" alone would gather the others first.
SPREAD = "one_metric(spread(numpy_rows(4096, 16), {spec}, {mesh}), {mesh})"
LARGE = [
    same.on_meshes(SPREAD.replace("{spec}", spec))[which]
    for which, spec in (
        (0, 'P(("data", "model"))'),
        (-2, 'P("data")'),
        (-1, 'P(None, "model")'),
    )
]


CHECKS = {
    "float": same.contract(
        CASES, measures.class_name, "the result must be a Python float"
    ),
    "agree": same.values(
        CASES,
        measures.equal_in_all,
        "the processes get different numbers",
        read="A computation in one process",
    ),
    "mean": same.values(
        CASES,
        measures.result,
        "this is not the mean of all values, each counted once, in float32",
        # Of numbers from -100 to 100, added up in any order.
        agree=lambda found, wanted: abs(found - wanted) < 1e-3,
        read="A mean of means",
    ),
    "travel": same.communication(
        LARGE,
        measures.sends_little,
        "values travel between devices: add them up on each device first",
        read="All values in every process",
        under=measures.note_runs,
    ),
}
# What to read when an attempt raises: words of the error, a section.
ERRORS = (("non-addressable", "On eight devices"),)
