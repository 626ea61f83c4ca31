"""What a right ``accumulate_gradients`` must show."""

from functools import partial

from shardgrade.grading import measures, same

MAKE = "accumulate_gradients(scaled_error, {mesh}, %d)"
PARAMS = "laid_out([normal(16, 3), normal()], P(), {mesh}), "
ROWS = "tuple(examples(%d, 16, 3, {mesh}).values())"
CASES = same.on_meshes(f"{MAKE % 4}({PARAMS}{ROWS % 64})")
# Other counts, with all devices along "data".
for count in (1, 8):
    CASES += same.on_meshes(f"{MAKE % count}({PARAMS}{ROWS % 64})")[-2:-1]
# Another tree and loss: wide, so that the intermediates are most of the
# memory, and with so many rows that to gather them takes more bytes.
INSIDE = same.on_meshes(
    "accumulate_gradients(squared_error, {mesh}, 16)",
    step="laid_out(mlp_params(16, 256, 24), P(), {mesh}), "
    "examples(1024, 16, 24, {mesh})",
    given="where the call is made inside jax.jit",
)
EXAMPLE = INSIDE[0].code
# First with all devices along "data", where no other axis adds bytes.
ALONG = INSIDE[-2:-1]
REPEATED = same.on_meshes(
    MAKE % 2,
    # A device's part of a batch has the shape of a gradient, and so could
    # be donated to it.
    step=f"{PARAMS}{ROWS % 128}",
    then="laid_out([normal(16, 3, seed=7), normal(seed=8)], P(), {mesh}), "
    f"{ROWS % 96}",
    given="where the same call is made three times, and then one with "
    "other parameters and another number of rows",
)[-2]
# Rows that are nearly alike: a bfloat16 sum of their gradients stalls.
BFLOAT16 = same.on_meshes(
    f"{MAKE % 512}(laid_out([normal(16, 3).astype('bfloat16'), "
    "normal().astype('bfloat16')], P(), {mesh}), laid_out("
    "(normal(4096, 16) / 99 + 1, normal(4096, 3) / 99), P('data'), {mesh}))"
)[-2]
# The devices divide 24 rows, and so does the count, but not both. Not all
# devices are along "data".
UNEVEN = same.on_meshes(f"{MAKE % 8}({PARAMS}{ROWS % 24})")[0]


def sent_in_sums(seen: same.Seen, *, loops: bool) -> int:
    """Count the bytes that a device sends in reductions, in loops or not.

    A loop of Python is unrolled, so its reductions are outside of loops.
    """
    return sum(
        each.sent * each.times
        for program in same.compiled_programs(seen.attempt, seen.case)
        for each in program.communication
        if (each.times > 1) == loops and "reduce" in each.kind
    )


LOOP = "A sum in each turn"
WRONG = "these are not the loss and the gradients of the whole batch"
LAYOUT = "the loss or a gradient is not replicated over the mesh"
MORE = "a device sends more than one all-reduce of the gradients and loss"
WIDE = f'{MORE} over "data": over "model", all devices have the same rows'
STALE = "a later call returns something else than its arguments give"
ROWS_REFUSED = "these rows can't be divided, and no error names the numbers"
EIGHT = "On eight devices"
# Instead of an all-reduce, two collectives may need padding.
BYTES = same.AtMost(1.05, same.SENT)
CHECKS = {
    "types": same.types(CASES),
    "wrong": same.values(CASES, measures.result, WRONG),
    "layout": same.placement(CASES, measures.shards, LAYOUT),
    "unrolled": same.communication(
        ALONG,
        partial(sent_in_sums, loops=False),
        "all-reduces outside of a loop carry more than one set of "
        "gradients, for example because jit unrolls a loop of Python",
        read="A loop of Python",
        agree=BYTES,
    ),
    "turns": same.communication(
        ALONG,
        partial(sent_in_sums, loops=True),
        "the devices' gradients are added up in each turn of the loop. In "
        "shard_map, mark the parameters once, before it, with "
        "jax.lax.pcast; under jit alone, let each device have a dimension "
        "of its own",
        read=LOOP,
        agree=BYTES,
    ),
    "more": same.communication(
        ALONG, measures.bytes_sent, MORE, read=EIGHT, agree=BYTES
    ),
    "wide": same.communication(
        INSIDE, measures.bytes_sent, WIDE, read=EIGHT, agree=BYTES
    ),
    "memory": same.memory(
        INSIDE,
        measures.program_bytes,
        "the intermediates or the gradients of more than one microbatch "
        "are in memory at a time",
        read=EIGHT,
        agree=same.AtMost(1.5, same.HELD),
    ),
    "stale": same.values(REPEATED, measures.step_results, STALE),
    "types_2": same.types(BFLOAT16),
    "sums": same.values(
        BFLOAT16,
        measures.result,
        "gradients of bfloat16 parameters are not added up in float32",
        read="Sums in bfloat16",
        agree=same.Near([0.02]),
    ),
    "rows_refused": same.refusal(UNEVEN, ROWS_REFUSED, names="24 2 8"),
}
# What to read when an attempt raises: words of the error, a section.
ERRORS = (("replicat|varying|vma|carry", LOOP),)
