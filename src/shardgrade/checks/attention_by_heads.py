"""What a right ``attention_by_heads`` must show."""

from functools import partial
from typing import Any

import jax

from shardgrade.grading import measures, same

GIVEN = (
    "where jax.jit(jax.grad(loss, argnums=(0, 1)))(params, x) is called, "
    "and loss is (y**2).sum()"
)
# Bytes that a device may send beside what the page counts.
SCALARS = 64


@same.cache_case
def take_gradients(
    attempt: same.Attempt, case: same.Case
) -> measures.Slopes:
    """Take the gradients of a loss under jit."""
    params, x, mesh = same.make_arguments(attempt, case)
    function: Any = attempt.function
    gradients, report = measures.take_gradients(
        *(attempt, case, GIVEN),
        lambda params, x: function(params, x, mesh),
        params=params,
        x=x,
    )
    data, model = mesh.shape["data"], mesh.shape["model"]
    # In a ring, an all-reduce sends so many times its bytes.
    one_sum = 2 * (model - 1) * (x.nbytes // data) // model
    k, v = params["k"], params["v"]
    whole = k.nbytes + v.nbytes if k.shape[1] % model else 0
    kernels = sum(
        w.addressable_shards[0].data.nbytes for w in params.values()
    )
    return measures.Slopes(
        gradients,
        report,
        2 * one_sum + 2 * whole + SCALARS,
        2 * kernels + SCALARS,
    )


of_gradients = partial(same.measure_made, take_gradients)


def call_on(
    mesh: str, heads: int, kv_heads: int, times: str = ""
) -> same.Case:
    """Call it inside jit, for so many heads on a mesh."""
    return same.Case(
        "in_jit(attention_by_heads)("
        f"attention_params(32, {heads}, {kv_heads}, 8, {mesh}), "
        f"laid_out({times}normal(8, 32, 32), P('data'), {mesh}), {mesh})",
        programs=True,
    )


COUNT = jax.device_count()
# Devices that share a key-value head, and devices that have several.
CASES = [
    *([call_on(f"mesh_of(2, {COUNT // 2})", 8, 2)] if COUNT >= 4 else []),
    call_on(f"mesh_of({COUNT}, 1)", 6, 3),
    call_on(
        f"mesh_of(1, {COUNT})", 4 * COUNT, 2 * COUNT if COUNT >= 4 else 1
    ),
]
# Fewer heads than devices, of which each has another: values alone. In the
# second, scores are too large for exp, and all of a token are below -190.
SHARED = (
    [call_on(f"mesh_of(1, {COUNT})", 2 * COUNT, 4)] if COUNT > 4 else []
)
LARGE = call_on(f"mesh_of(1, {COUNT})", 2 * COUNT, 2, "8 * ")
EXAMPLE = CASES[0].call
# Fewer than devices, or more, and neither number divides the other.
UNEVEN = 3, 3 * COUNT // 2
FEWER, OVER = (
    call_on(f"mesh_of(1, {COUNT})", 3 * COUNT, number).call
    for number in UNEVEN
)
ERROR = (
    "no ValueError names the key-value heads and the devices, of which "
    "neither number divides the other"
)
WRONG = "this is not causal grouped-query attention"
TOO_LARGE = (
    "for scores up to 400, the result is wrong, or NaN: subtract the "
    "maximum of a token's scores before exp, and let masked scores be -inf"
)
LAYOUT = 'y is not sharded as P("data")'
CHECKS = {
    "types": same.types(CASES),
    "wrong": same.values([*CASES, *SHARED], measures.result, WRONG),
    "too_large": same.values(LARGE, measures.result, TOO_LARGE),
    "error": same.refusal(FEWER, ERROR, names=f"{UNEVEN[0]} {COUNT}"),
    "error_2": same.refusal(OVER, ERROR, names=f"{UNEVEN[1]} {COUNT}"),
    "slopes": same.values(
        CASES,
        of_gradients(lambda made: made.gradients),
        "a gradient of (y**2).sum() is wrong",
        agree=same.Near([1e-3]),
    ),
    "layout": same.placement(CASES, measures.shards, LAYOUT),
    "more": same.placement(
        CASES,
        measures.flops,
        "a device computes more than its own query heads, and their "
        "key-value heads once",
        read="Every key-value head on each device",
        agree=same.AtMost(1.02, same.FLOPS),
    ),
    "forward": same.communication(
        CASES,
        measures.bytes_sent,
        "in the forward pass, devices exchange more than one sum of their "
        "terms of the output",
        read="On eight devices",
        agree=same.AtMost(1, same.SENT, more=SCALARS),
    ),
    "backward": same.communication(
        CASES,
        of_gradients(measures.sent_over_model),
        'over "model", devices exchange more than one sum of the output, '
        "one of the gradient of x, and those of the gradients of "
        "replicated k and v. In shard_map, mark x once, with "
        "jax.lax.pcast, and keep check_vma",
        read="Too many sums in the backward pass",
    ),
    "over_data": same.communication(
        CASES,
        of_gradients(measures.sent_over_data),
        'over "data", devices exchange more than the kernels\' gradients',
        read="Too many sums in the backward pass",
    ),
}
