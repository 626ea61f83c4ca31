"""What a right ``route_to_experts`` must show."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np

from shardgrade.grading import measures, same

GIVEN = (
    "where jax.jit(jax.grad(loss, argnums=(0, 1)))(params, x) is called, "
    "loss is (y**2).sum(), and the router's columns 0 and 1 are equal"
)
# Bytes that a device may send beside what the page counts, and how many
# times that.
SCALARS, ROOM = 64, 1.05


@same.cache_case
def take_gradients(
    attempt: same.Attempt, case: same.Case
) -> measures.Slopes:
    """Take the gradients of a loss under jit, with two equal experts."""
    params, x, mesh, capacity = same.make_arguments(attempt, case)
    router = np.array(params["router"])
    router[:, 1] = router[:, 0]
    placed = jax.device_put(router, params["router"].sharding)
    params = {**params, "router": placed}
    function: Any = attempt.function
    gradients, report = measures.take_gradients(
        *(attempt, case, GIVEN),
        lambda params, x: function(params, x, mesh, capacity)[0],
        params=params,
        x=x,
    )
    data, model = mesh.shape["data"], mesh.shape["model"]
    slots = router.shape[1] * capacity * x.shape[1] * x.dtype.itemsize
    kernels = (params["up"].nbytes + params["down"].nbytes) // model
    small = 2 * router.nbytes + SCALARS
    return measures.Slopes(
        gradients,
        report,
        # The router's gradient may be added up along one axis at a time.
        int(ROOM * 4 * slots * (model - 1) / model) + small,
        2 * kernels * (data - 1) // data + small,
    )


of_gradients = partial(same.measure_made, take_gradients)


def describe_router_gradient(made: measures.Slopes) -> str:
    """Tell whether the router has a gradient."""
    some = np.any(made.gradients["params"]["router"])
    return f"the gradient of the router: {'numbers' if some else 'zeros'}"


def compare_equal_experts(made: measures.Slopes) -> str:
    """Tell whether two equal experts get the same gradient."""
    first, second = np.asarray(made.gradients["params"]["router"]).T[:2]
    words = "equal" if np.allclose(first, second) else "different"
    return f"their columns of the gradient: {words}"


def result(
    number: int, measure: Callable[[Any], Any] = lambda array: array
) -> Callable[[same.Seen], Any]:
    """Give the function that measures y or dropped."""
    return lambda seen: measure(seen.result[number])


def without_numbers(y: jax.Array) -> str:
    """Count the tokens whose output has NaN."""
    return f"NaN in {np.isnan(y).any(1).sum()} tokens"


def count_passed_on(seen: same.Seen) -> str:
    """Count the tokens that come back as they were, but padding."""
    x = np.asarray(same.make_arguments(seen.attempt, seen.case)[1])
    count = (x.any(1) & (x == np.asarray(seen.result[0])).all(1)).sum()
    return f"{count} tokens come back as they were"


class SameKept:
    """Let the same tokens have an output that isn't zeros."""

    def __call__(self, found: Any, wanted: Any) -> bool:
        """Tell whether they do, or most outputs are wrong anyway."""
        kept, due = self.kept(found), self.kept(wanted)
        off = np.abs(np.subtract(found, wanted)).max(1) > 2e-4
        both = kept & due
        return np.array_equal(kept, due) or off[both].sum() > both.sum() / 2

    def words(self, found: Any, wanted: Any) -> tuple[str, str]:
        """Write what the first token has for which it differs."""
        kept, due = self.kept(found), self.kept(wanted)
        token = (kept != due).argmax()
        got, expected = (
            f"token {token}: {'an output' if each[token] else 'zeros'}"
            for each in (kept, due)
        )
        count = f"{(kept != due).sum()} of {len(due)} tokens differ"
        return f"{got} ({count})", expected

    def kept(self, y: Any) -> Any:
        """Tell which tokens have an output that isn't zeros."""
        return (np.abs(y) > 1e-4).any(1)


def call_on(
    mesh: str, experts: int, x: str, capacity: int, scale: str = ""
) -> same.Case:
    """Call it inside jit, for tokens of which some are padding."""
    params = f"expert_params(32, {experts}, 16, {mesh}{scale})"
    call = f"{params}, padded_tokens({x}, {mesh}), {mesh}, {capacity}"
    return same.Case(f"in_jit(route_to_experts)({call})", programs=True)


COUNT = jax.device_count()
# Four and three experts a device, and both of them on each. In the second,
# a device has more slots than tokens, and scores are too large for exp; in
# the last, it keeps more tokens of an expert than bfloat16 can count, and
# drops more than a byte can.
CASES = [
    call_on(f"mesh_of(2, {COUNT // 2})", 16, "512, 32, 20", 6),
    call_on(
        f"mesh_of(1, {COUNT})", 3 * COUNT, f"{5 * COUNT}, 32, 7", 9, ", 40"
    ),
    call_on(f"mesh_of({COUNT}, 1)", 2, f"{600 * COUNT}, 32, 550", 270),
][COUNT < 4 :]
# One mesh with both axes, where there are enough devices.
SLOPED = CASES[:1] if COUNT >= 4 else CASES
EXAMPLE = CASES[0].call
STILL = "A router without a gradient"
PASSED_ON = (
    "a dropped token is passed on, but its y must be zeros: the caller "
    "adds y to x"
)
OTHERS = (
    "y is zeros for other tokens than those to drop: perhaps a device "
    "doesn't keep its first `capacity` tokens for an expert, a token has "
    "another expert, or two tokens have the same slot"
)
UNCOUNTED = (
    "y is zeros for other tokens than those to drop, where an expert gets "
    "more than 256 tokens of a device: int32 can count them, int8 or "
    "bfloat16 can't"
)
WRONG = "y is not the output of each token's expert, times its probability"
NEARLY = "y is nearly right: a step is less precise than float32"
DROPPED = "dropped is not the number of tokens that all devices dropped"
SHARED = (
    "with a router whose columns 0 and 1 are equal, both get the same "
    "gradient, as from max. Only expert 0 is chosen, so take its "
    "probability, with jnp.take_along_axis"
)
LAYOUT = 'y is not sharded as P(("data", "model")), like x'
OVER_DATA = 'over "data", devices exchange more than gradients of params'
CHECKS = {
    "types": same.types(CASES),
    "no_numbers": same.values(
        CASES,
        result(0, without_numbers),
        "y has NaN. In float32, exp of a score above 88 is infinite, so "
        "the largest score is subtracted first, as in jax.nn.softmax",
    ),
    "passed_on": same.values(CASES, count_passed_on, PASSED_ON),
    # What isn't right where fewer tokens are counted fails before.
    "others": same.values(CASES[:2], result(0), OTHERS, agree=SameKept()),
    "uncounted": same.values(
        CASES[2:], result(0), UNCOUNTED, agree=SameKept()
    ),
    "wrong": same.values(CASES, result(0), WRONG, agree=same.Near([0.02])),
    "nearly": same.values(CASES, result(0), NEARLY),
    "dropped": same.values(CASES, result(1), DROPPED),
    "not_learnt": same.values(
        SLOPED,
        of_gradients(describe_router_gradient),
        "the router has no gradient: y is weighted by a constant",
        read=STILL,
    ),
    "shared": same.values(
        SLOPED, of_gradients(compare_equal_experts), SHARED, read=STILL
    ),
    "slopes": same.values(
        SLOPED,
        of_gradients(lambda made: made.gradients),
        "a gradient of (y**2).sum() is wrong, for a router whose columns "
        "0 and 1 are equal",
        agree=same.Near([1e-3]),
    ),
    "layout": same.placement(
        CASES, result(0, measures.describe_shards), LAYOUT
    ),
    "more": same.placement(
        CASES,
        measures.flops,
        "a device computes more than the scores of its tokens, and the "
        "slots of its experts",
        read="Matrix products that waste FLOPs",
        agree=same.AtMost(ROOM, same.FLOPS),
    ),
    "forward": same.communication(
        CASES,
        measures.bytes_sent,
        "devices exchange more than two all-to-alls of slots and a scalar: "
        "send tokens to the experts, and gather no kernels",
        read="On eight devices",
        agree=same.AtMost(ROOM, same.SENT, more=SCALARS),
    ),
    "backward": same.communication(
        SLOPED,
        of_gradients(measures.sent_over_model),
        'over "model", the gradients exchange more than four all-to-alls '
        "of the slots and the gradient of the router",
    ),
    "over_data": same.communication(
        SLOPED, of_gradients(measures.sent_over_data), OVER_DATA
    ),
}
