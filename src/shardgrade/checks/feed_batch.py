"""What a right ``feed_batch`` must show, in each of two processes."""

from dataclasses import replace

from shardgrade.grading import measures, same

BATCHES = ("numpy_rows(32, 4)", "numpy_rows(16, 2, 3, 2, dtype='int32')")
CALL = "feed_batch(rows_of_process({batch}, {mesh}), {mesh})"
EACH = [same.on_meshes(CALL.replace("{batch}", batch)) for batch in BATCHES]
# Where all hand in the same rows, another spec is another shape as well.
PARTS = [case for cases in EACH for case in cases[:-1]]
SAME = [cases[-1] for cases in EACH]
CASES = PARTS + SAME
BACKWARDS = same.on_meshes(
    CALL.replace("{batch}", "numpy_rows(32)").replace(
        "{mesh}", "backwards({mesh})"
    ),
    given="where the devices of the last process come first in the mesh",
)
EXAMPLE = CASES[0].call
# Of 2 MiB, so that what is sent of it can't be small.
LARGE = same.on_meshes(CALL.replace("{batch}", "numpy_rows(4096, 128)"))
USUAL = "numpy_rows(16, 4)"
# In what rows differ, and which. The last has no rows, so that it takes no
# memory.
APART = {
    "apart": ("shapes", f"{USUAL}, numpy_rows(8, 4)"),
    "widths": ("shapes, with as many rows", f"{USUAL}, numpy_rows(16, 5)"),
    "ranks": ("ranks", f"{USUAL}, numpy_rows(16, 4, 1)"),
    "dtypes": ("dtypes", f"{USUAL}, numpy_rows(16, 4, dtype='int32')"),
    "digits": (
        "shapes, in the last of many digits",
        "numpy_rows(0, 1000, 1000, 1000), numpy_rows(0, 1000, 1000, 1001)",
    ),
}
CHECKS = {
    **same.numbered("batch")(
        check
        for cases in (PARTS, SAME)
        for check in (
            same.types(cases),
            same.placement(
                cases,
                measures.result_layouts,
                'the batch is not sharded as P("data")',
                read="The API",
            ),
        )
    ),
    "rows": same.values(
        CASES,
        measures.local_slices,
        "a process doesn't hold the rows that belong to its devices",
        read="A part where all rows are wanted",
    ),
    "copies": same.placement(
        replace(
            CASES[0],
            given="where copies from one device to another are refused",
        ),
        measures.describe_copies,
        "rows go to one device first and are copied from there",
        under=measures.note_copies,
        read="Rows that travel",
    ),
    "travel": same.communication(
        LARGE,
        measures.sends_little,
        "rows travel between devices, though each process has its own",
        read="Rows that travel",
        under=measures.note_runs,
    ),
    "places": same.values(
        BACKWARDS,
        measures.local_slices,
        "a process's rows don't stand where its devices are in the mesh",
    ),
    **{
        name: same.refusal(
            same.on_meshes(f"feed_batch(except_last({pair}), {{mesh}})")[
                :2
            ],
            f"the processes hand in rows of different {what}: raise a "
            "ValueError in all of them",
        )
        for name, (what, pair) in APART.items()
    },
    "message": same.refusal(
        same.on_meshes(
            f"feed_batch(except_last({USUAL}, "
            "numpy_rows(8, 4, dtype='int32')), {mesh})"
        ),
        "the message must name the shapes and dtypes of both",
        names="float32 int32 16 8 4",
    ),
}
# What to read when an attempt raises: words of the error, a section.
ERRORS = (("not the same on each process", "Rows that travel"),)
