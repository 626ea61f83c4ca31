"""What a right ``pipeline_forward`` must show."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np

from shardgrade.grading import measures, same
from shardscope.programs.report import Program

GIVEN = (
    "where jax.jit(jax.grad(loss, argnums=(0, 1)))(stacked, x) is called, "
    "and loss is (y**2).sum()"
)
# Bytes that a device may send beside what the page counts.
SCALARS = 64


@dataclass(frozen=True, eq=False)
class Passed(measures.Slopes):
    """The same of a pipeline.

    Attributes:
        passed: Bytes of the microbatches that a device passes on.
    """

    passed: int


@same.cache_case
def take_gradients(attempt: same.Attempt, case: same.Case) -> Passed:
    """Take the gradients of a loss under jit."""
    block, stacked, x, mesh, count = same.make_arguments(attempt, case)
    function: Any = attempt.function
    gradients, report = measures.take_gradients(
        *(attempt, case, GIVEN),
        lambda stacked, x: function(block, stacked, x, mesh, count),
        stacked=stacked,
        x=x,
    )
    data, stages = mesh.shape["data"], mesh.shape["model"]
    rows = x.nbytes // data
    kept = sum(leaf.nbytes for leaf in jax.tree.leaves(stacked)) // stages
    # In a ring, an all-reduce sends so many times its bytes.
    passed = rows * (count + stages - 1) // count
    forward = passed + 2 * rows * (stages - 1) // stages
    return Passed(
        gradients,
        report,
        2 * forward + SCALARS,
        2 * kept * (data - 1) // data + SCALARS,
        2 * passed,
    )


of_gradients = partial(same.measure_made, take_gradients)


def name_not_finite(made: measures.Slopes) -> str:
    """Say which gradients have entries that are no numbers."""
    bad = [
        name
        for name, tree in made.gradients.items()
        if any(~np.isfinite(leaf).all() for leaf in jax.tree.leaves(tree))
    ]
    return f"NaN in the gradient of {' and '.join(bad) or 'nothing'}"


@same.cache_case
def forward(attempt: same.Attempt, case: same.Case) -> Program:
    """Compile the forward pass together with its arguments."""
    block, stacked, x, mesh, count = same.make_arguments(attempt, case)
    attempt.name_call(case.call)
    function: Any = attempt.function
    _, report = same.compile_and_run(
        attempt,
        lambda stacked, x: function(block, stacked, x, mesh, count),
        stacked,
        x,
    )
    return report


def forward_over_data(report: Program) -> same.Limited:
    """Count what the forward pass sends over "data"."""
    return same.Limited(report.sent("data"), SCALARS, same.SENT)


def permuted(made: Passed) -> same.Limited:
    """Count the bytes of permutes, where too many are sent in all."""
    count = made.program.sent() - made.program.sent("data")
    permutes = sum(
        each.sent * each.times
        for each in made.program.communication
        if each.kind == "collective-permute"
    )
    if count <= made.over_model:
        permutes = 0
    return same.Limited(permutes, made.passed, f"{same.SENT} in permutes")


def call_on(
    mesh: str, block: str, stacked: str, x: str, count: int
) -> same.Case:
    """Call it inside jit, for a model on a mesh."""
    return same.Case(
        f"in_jit(pipeline_forward)({block}, "
        f"laid_out({stacked}, P('model'), {mesh}), "
        f"laid_out({x}, P('data'), {mesh}), {mesh}, {count})",
        programs=True,
    )


COUNT = jax.device_count()
HALF = (COUNT + 1) // 2
MLP = "residual_block", "stacked_params(8, 16, 32)", "normal(192, 16)"
PAIR = (
    "lambda p, x: x - p[1] * (x @ p[0])",
    "[normal(3, 8, 8), normal(3) / 4]",
    f"normal({12 * HALF}, 8)",
)
# All but rows of x, after fewer than all layers, gives NaN.
MARKED = (
    f"lambda p, x: marked_block(p, x, {COUNT})",
    f"normal({COUNT}, 15, 15) / 16",
    "marked(normal(24, 16))",
)
# Two layers in a stage, one stage on half of the devices, whose rows can't
# be divided among all, and fewer microbatches than stages.
CASES = [
    *(
        [call_on(f"mesh_of(2, {COUNT // 2})", *MLP, 6)]
        if COUNT >= 4
        else []
    ),
    call_on(f"mesh_of({HALF}, 1)", *PAIR, 4),
    call_on(f"mesh_of(1, {COUNT})", *MARKED, 3),
]
EXAMPLE = CASES[0].call
# What has both axes, and the longest pipeline.
SLOPES = CASES[::2] if COUNT >= 4 else CASES
PARTS = 4
# Both numbers divide the rows, but their product doesn't; not so on one
# device.
ROWS = 9 * max(COUNT, PARTS) if COUNT > 1 else 9
INDIVISIBLE = call_on(
    f"mesh_of({COUNT}, 1)", *PAIR[:2], f"normal({ROWS}, 8)", PARTS
).call
OUTPUT = "this is not x after all layers"
LAYOUT = 'y is not sharded as P("data")'
BACKWARD = (
    'over "model", devices exchange more for the gradients than twice what '
    "the forward pass may send: perhaps each tick adds up the gradient of "
    "x or of the output, or the gradient of the output, which each device "
    "has, is added up again"
)
PERMUTES = (
    'over "model", devices exchange more for the gradients than twice what '
    "the forward pass may send, because they pass on more than a "
    "microbatch in each tick of both passes"
)
SUMS = "A sum of the gradients in each tick"
CHECKS = {
    "types": same.types(CASES),
    "output": same.values(CASES, measures.result, OUTPUT),
    "error": same.refusal(
        INDIVISIBLE,
        'no ValueError names the rows, the devices along "data" and count, '
        "although the rows can't be divided among them",
        names=f"{ROWS} {COUNT} {PARTS}",
    ),
    "waiting": same.values(
        SLOPES,
        of_gradients(name_not_finite),
        "a gradient is NaN: what a stage computes while it has no "
        "microbatch must not reach the gradients",
        read="Zeros in the bubble",
    ),
    "wrong": same.values(
        SLOPES,
        of_gradients(lambda made: made.gradients),
        "a gradient of (y**2).sum() is wrong",
        agree=same.Near([1e-3]),
    ),
    "layout": same.placement(CASES, measures.shards, LAYOUT),
    "more": same.placement(
        CASES,
        measures.flops,
        "a device computes more than its own layers, for one microbatch "
        "in each of count + S - 1 ticks: a tick too many, or, under jit "
        "alone, all layers",
        agree=same.AtMost(1.02, same.FLOPS),
    ),
    "fewer": same.placement(
        CASES,
        measures.flops,
        "a device computes less than its own layers, for one microbatch "
        "in each of count + S - 1 ticks: it doesn't make count "
        "microbatches of its rows",
        agree=same.AtLeast(0.98, same.FLOPS),
    ),
    "forward_over_data": same.communication(
        CASES[0],
        same.measure_made(forward, forward_over_data),
        'over "data", the forward pass sends bytes, but it needs none, '
        "because a device has all of its rows",
    ),
    "forward": same.communication(
        CASES,
        measures.bytes_sent,
        "in the forward pass, devices exchange more than a microbatch in "
        "each of count + S - 1 ticks and one sum of the result",
        agree=same.AtMost(1, same.SENT, more=SCALARS),
        read="On eight devices",
    ),
    "over_data": same.communication(
        SLOPES,
        of_gradients(measures.sent_over_data),
        'over "data", devices exchange more than the gradients of stacked '
        "once",
        read=SUMS,
    ),
    "permutes": same.communication(
        SLOPES, of_gradients(permuted), PERMUTES, read="Stages under `vmap`"
    ),
    "backward": same.communication(
        SLOPES, of_gradients(measures.sent_over_model), BACKWARD, read=SUMS
    ),
}
