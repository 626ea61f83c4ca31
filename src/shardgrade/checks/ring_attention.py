"""What a right ``ring_attention`` must show."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np

from shardgrade.grading import measures, same
from shardscope.programs.program import program
from shardscope.programs.report import Program

GIVEN = (
    "where jax.jit(jax.grad(loss, argnums=(0, 1, 2)))(q, k, v) is called, "
    "and loss is (y**2).sum()"
)
# Bytes that a device may send beside blocks, as for the sum of a loss.
SCALARS = 64


@same.cache_case
def step(attempt: same.Attempt, case: same.Case) -> tuple[Any, Program]:
    """Compile what gives output and gradients."""
    q, k, v, mesh = same.make_arguments(attempt, case)
    attempt.name_call(case.call, GIVEN)
    function: Any = attempt.function

    def loss(*three: Any) -> Any:
        y = function(*three, mesh)
        return (y**2).sum(), y

    def both(*three: Any) -> Any:
        found, y = jax.grad(loss, argnums=(0, 1, 2), has_aux=True)(*three)
        return dict(zip("qkvy", (*found, y), strict=True))

    with attempt.running():
        run = jax.jit(both).lower(q, k, v).compile()
    return run, program(run)


@same.cache_case
def take_gradients(
    attempt: same.Attempt, case: same.Case
) -> dict[str, Any]:
    """Give output and gradients for some arguments, of one program."""
    q, k, v, _ = same.make_arguments(attempt, case)
    first = np.arange(q.shape[1])[:, None, None] < 40
    run, _ = step(attempt, case)
    attempt.name_call(case.call, GIVEN)
    with attempt.running():
        found = {
            "given": run(q, k, v),
            # Scores of 1,000 and more: exp(89) is infinite in float32.
            "large": run(16 * q, 16 * k, v),
            # Near -6000, and 5000 for later tokens: where none is above
            # -104, exp gives 0, and a mask of -1000 is above all; one
            # that adds -10,000 leaves the later tokens above the first.
            "apart": run(q + 38, k + np.where(first, -56, 46), v),
        }
        jax.block_until_ready(found)
    return found


def found_of(name: str) -> Callable[[same.Seen], Any]:
    """Give the function that gives output and gradients by name."""
    return same.measure_made(take_gradients, lambda made: made[name])


def describe_shards(seen: same.Seen) -> dict[str, str]:
    """Describe which device holds which slice of the gradients."""
    return measures.shards_by_path(found_of("given")(seen))


def nans(seen: same.Seen) -> str:
    """Tell whether an array has NaN."""
    return "NaN" if np.isnan(seen.result).any() else "no NaN"


def sizes(attempt: same.Attempt, case: same.Case) -> tuple[int, int, int]:
    """Give the bytes of a block and of its scores, and the devices."""
    q, *_, mesh = same.make_arguments(attempt, case)
    n = mesh.shape["model"]
    numbers = q.size // mesh.size
    scores = numbers // q.shape[-1] * q.shape[1] // n
    return 4 * numbers, 4 * scores, n


def sent_by(programs: Sequence[Program]) -> tuple[int, int]:
    """Count the bytes of hops around the ring, and all others."""
    found = [each for p in programs for each in p.communication]
    hops = [each for each in found if each.kind == "collective-permute"]
    of_hops, of_all = (
        sum(each.sent * each.times for each in those)
        for those in (hops, found)
    )
    return of_hops, of_all - of_hops


def count_sent(seen: same.Seen) -> same.Limited:
    """Count what is sent for the output."""
    block, _, n = sizes(seen.attempt, seen.case)
    count = sum(sent_by(same.compiled_programs(seen.attempt, seen.case)))
    return same.Limited(count, 2 * (n - 1) * block + SCALARS, same.SENT)


def count_hops(seen: same.Seen) -> same.Limited:
    """Count the hops of a loop, where too much is sent in all."""
    _, _, n = sizes(seen.attempt, seen.case)
    turns = [
        each.times
        for p in same.compiled_programs(seen.attempt, seen.case)
        for each in p.communication
        if each.kind == "collective-permute" and count_sent(seen).exceeded
    ]
    return same.Limited(max(turns, default=0), n - 1, "hops")


def count_gathered(seen: same.Seen) -> same.Limited:
    """Count what is sent beside hops, where too much is sent in all."""
    _, others = sent_by(same.compiled_programs(seen.attempt, seen.case))
    others *= count_sent(seen).exceeded
    return same.Limited(others, SCALARS, f"{same.SENT} beside hops")


def count_held(
    where: Callable[[Program], bool], seen: same.Seen
) -> same.Limited:
    """Count the intermediates of the output in programs of a kind."""
    block, scores, _ = sizes(seen.attempt, seen.case)
    programs = same.compiled_programs(seen.attempt, seen.case)
    held = [p.memory.temporaries for p in programs if where(p)]
    return same.Limited(
        max(held, default=0), 8 * block + 4 * scores, same.HELD
    )


def without_loop(report: Program) -> bool:
    """Tell whether a program has several hops, but none in a loop."""
    return report.collectives.get("collective-permute", 0) > 2 and all(
        each.times == 1 for each in report.communication
    )


def count_flops(seen: same.Seen) -> same.Limited:
    """Count the FLOPs of the output, unless a branch may be skipped."""
    q, *_, mesh = same.make_arguments(seen.attempt, seen.case)
    programs = same.compiled_programs(seen.attempt, seen.case)
    count = sum(p.flops.total for p in programs if p.flops.counted)
    return same.Limited(
        count, 5 * q.size * q.shape[1] // mesh.size, same.FLOPS
    )


def count_sent_in_all(seen: same.Seen) -> same.Limited:
    """Count what is sent for the output and its gradients."""
    block, _, n = sizes(seen.attempt, seen.case)
    _, report = step(seen.attempt, seen.case)
    of_hops, others = sent_by([report])
    limit = 4 * (n - 1) * block + SCALARS
    sent = of_hops + (others if others > SCALARS else 0)
    # All of it twice, and the gradients of keys and values come home.
    if others <= SCALARS and limit < sent <= 6 * n * block + SCALARS:
        block, scores, _ = sizes(seen.attempt, RING)
        _, report = step(seen.attempt, RING)
        if report.memory.temporaries <= 8 * block + 6 * scores:
            sent = limit
        seen.attempt.name_call(seen.case.call, GIVEN)
    return same.Limited(sent, limit, same.SENT)


def count_held_in_all(seen: same.Seen) -> same.Limited:
    """Count the intermediates of the output and its gradients."""
    block, scores, n = sizes(seen.attempt, seen.case)
    _, report = step(seen.attempt, seen.case)
    limit = (3 * n + 8) * block + 8 * scores
    return same.Limited(report.memory.temporaries, limit, same.HELD)


def quantities(attempt: same.Attempt) -> dict[str, str]:
    """Give what a right verdict compares: the time of a call is no use."""
    return measures.quantities(same.compiled_programs(attempt, CASES[0]))


COUNT = jax.device_count()


def call_on(data: int, model: int, made: str, *rest: int) -> same.Case:
    """Call it inside jit, on a mesh."""
    mesh = f"mesh_of({data}, {model})"
    shape = ", ".join(map(str, (max(2, data), *rest)))
    three = ", ".join(
        f"laid_out({made}({shape}, seed={seed}), "
        f"P('data', 'model'), {mesh})"
        for seed in range(3)
    )
    return same.Case(
        f"in_jit(ring_attention)({three}, {mesh})", programs=True
    )


RING = call_on(1, COUNT, "normal", 256, 2, 8)
GRID = call_on(2, COUNT // 2, "normal", 256, 2, 8) if COUNT >= 4 else RING
# A block of keys takes as much as one of scores, so a gather shows.
SHORT = call_on(1, COUNT, "normal", 16 * COUNT, 3, 16)
# With fewer tokens, blocks of scores that are kept take little.
LONG = call_on(1, COUNT, "normal", 128 * COUNT, 2, 8)
CASES = [
    *([GRID] if COUNT >= 4 else []),
    # Longer than what bfloat16 counts to, as the next one.
    call_on(COUNT, 1, "normal", 384, 2, 8),
    SHORT,
]
NARROW = [call_on(1, COUNT, "hard_to_add", 512, 2, 16)]
EXAMPLE = CASES[0].call
EIGHT = "On eight devices"
LOOP, MAXIMUM = "A loop in Python", "A sum without its maximum"
WRONG = "this is not causal attention"
SLOPES = "y or a gradient of (y**2).sum() is wrong"
LARGE = (
    f"with 16 times q and k, for scores of thousands, {SLOPES}: subtract "
    "the largest score so far before exp"
)
APART = (
    "with q + 38, and k - 56 for 40 tokens and k + 46 for later ones, for "
    f"scores near -6000 and 5000, {SLOPES}: perhaps the maximum begins too "
    "high, or masked scores aren't low enough"
)
NAN = "the result has NaN where a block has no token to attend to"
LAYOUT = 'y is not sharded as P("data", "model")'
LAYOUTS = "a gradient is not sharded like its array"
HOPS = (
    "something makes more than model - 1 hops: perhaps the last block is "
    "sent on, or queries travel, whose sums have to come home"
)
MORE = (
    "for y, a device sends more than a block of keys and one of values in "
    "each of model - 1 hops"
)
TWICE = "the products of y are more than those of attention without a mask"
BACKWARD = (
    "for y and its gradients, a device sends more than a block of keys and "
    "one of values, forward, and their gradients, backward, in each of "
    "model - 1 hops. To send the blocks again is fine if none is kept"
)
UNROLLED = (
    "the compiler sends all blocks before it uses the first, because the "
    "loop is one of Python, so a device holds them all: use jax.lax.scan"
)
HELD = (
    "a device holds more than a few blocks and the scores of a few: use "
    "each block as it arrives"
)
KEPT = (
    "for the backward pass, a device keeps more than the blocks that came "
    "by: without jax.checkpoint, JAX keeps the scores of each"
)
CLOSE, ROUGH = same.Near([1e-3]), same.Near([0.02])
# float32 rounds -6000 by up to 0.0002, and the logarithm of a sum too.
ROUGHER = same.Near([0.05])
# What needs no gradient first.
CHECKS = {
    "types": same.types(CASES),
    # With one device along "model", it may be that no block is used.
    "nan": same.values(CASES[:1], nans, NAN, read=MAXIMUM),
    "wrong": same.values(CASES, measures.result, WRONG),
    "layout": same.placement(CASES, measures.shards, LAYOUT),
    "hops": same.communication(
        CASES, count_hops, HOPS, read="One hop too many"
    ),
    "gathered": same.communication(
        CASES, count_gathered, "the program also gathers arrays", read=EIGHT
    ),
    "more": same.communication(CASES, count_sent, MORE, read=EIGHT),
    "rows": same.memory(
        CASES,
        partial(
            count_held, lambda report: "all-gather" in report.collectives
        ),
        "keys or values are gathered, so a device holds those of the whole "
        "sequence: send blocks around the ring, and use each as it arrives",
        read=EIGHT,
    ),
    "unrolled": same.memory(
        CASES, partial(count_held, without_loop), UNROLLED, read=LOOP
    ),
    "held": same.memory(
        CASES, partial(count_held, lambda report: True), HELD, read=EIGHT
    ),
    "twice": same.placement(CASES, count_flops, TWICE),
    "types_2": same.types(NARROW),
    **same.numbered("gradients")(
        same.values([GRID], found_of(name), why, read=read, agree=agree)
        for name, why, read, agree in (
            ("given", SLOPES, "Problem", CLOSE),
            ("large", LARGE, MAXIMUM, CLOSE),
            ("apart", APART, MAXIMUM, ROUGHER),
        )
    ),
    "bfloat16": same.values(
        NARROW,
        measures.result,
        "for bfloat16 arrays, scores and sums must be float32",
        agree=ROUGH,
        read="The API",
    ),
    "layouts": same.placement([GRID], describe_shards, LAYOUTS),
    "kept": same.memory(
        [LONG], count_held_in_all, KEPT, read="Scores that are kept"
    ),
    "backward": same.communication(
        [GRID], count_sent_in_all, BACKWARD, read="Scores that are kept"
    ),
}
