"""What a right ``route_to_experts`` must show."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from shardbook.grading import measures, same
from shardbook.grading.agreement import AtMost, Near
from shardbook.grading.attempt import Attempt
from shardbook.grading.cases import (
    Case,
    Seen,
    compile_and_run,
    given,
    of_made,
    once,
)
from shardbook.grading.measures.gradients import (
    Slopes,
    sent_over_data,
    sent_over_model,
)
from shardbook.grading.measures.placement import shards_by_path

GIVEN = (
    "where jax.jit(jax.grad(loss, argnums=(0, 1)))(params, x) is called, "
    "and loss is (y**2).sum()"
)
# Bytes that a device may send beside what the page counts, and how many
# times that.
SCALARS, ROOM = 64, 1.05


@once
def slopes(attempt: Attempt, case: Case) -> Slopes:
    """Take the gradients of a loss under jit."""
    params, x, mesh, capacity = given(attempt, case)
    attempt.name_call(case.call, GIVEN)
    function: Any = attempt.function

    def loss(params: Any, x: jax.Array) -> Any:
        return (function(params, x, mesh, capacity)[0] ** 2).sum()

    gradient = jax.grad(loss, argnums=(0, 1))
    (of_params, of_x), report = compile_and_run(
        attempt, gradient, params, x
    )
    data, model = mesh.shape["data"], mesh.shape["model"]
    router, experts = params["router"].nbytes, params["router"].shape[1]
    slots = experts * capacity * x.shape[1] * x.dtype.itemsize
    kernels = (params["up"].nbytes + params["down"].nbytes) // model
    return Slopes(
        {"params": of_params, "x": of_x},
        report,
        # The router's gradient may be added up along one axis at a time.
        int(ROOM * 4 * slots * (model - 1) / model) + 2 * router + SCALARS,
        2 * kernels * (data - 1) // data + 2 * router + SCALARS,
    )


of_slopes = partial(of_made, slopes)


def shards_of(number: int) -> Callable[[Seen], str]:
    """Give the function that describes the shards of a result."""
    return lambda seen: measures.describe_shards(seen.result[number])


def learns(made: Slopes) -> str:
    """Tell whether the router has a gradient."""
    some = np.any(made.gradients["params"]["router"])
    return f"the gradient of the router: {'numbers' if some else 'zeros'}"


def on(
    mesh: str, tokens: int, experts: int, capacity: int, padding: int = 20
) -> Case:
    """Call it inside jit, for tokens of which some are padding."""
    return Case(
        "in_jit(route_to_experts)("
        f"expert_params(32, {experts}, 16, {mesh}), "
        f"padded_tokens({tokens}, 32, {padding}, {mesh}), {mesh}, "
        f"{capacity})",
        programs=True,
    )


def mistaken(
    params: Any,
    x: jax.Array,
    mesh: Mesh,
    capacity: int,
    *,
    count: str = "each",
    last: bool = False,
    mixed: bool = False,
    overwrites: bool = False,
    dropped: str = "zeros",
    weighted: bool = True,
) -> tuple[jax.Array, jax.Array]:
    """Give y and dropped as a known mistake makes them."""
    experts, tokens = params["router"].shape[1], jnp.arange(len(x))
    blocks = {"each": mesh.size, "data": mesh.shape["data"], "all": 1}
    block = tokens * blocks[count] // len(x)
    weights = jax.nn.softmax(x @ params["router"])
    choice = weights.argmax(1)
    if last:
        choice = experts - 1 - weights[:, ::-1].argmax(1)
    queues = jax.nn.one_hot(choice, experts, dtype=jnp.int32)
    queues = queues.reshape(blocks[count], -1, experts)
    slot = (queues.cumsum(1) * queues).sum(-1).ravel() - 1
    clipped = jnp.minimum(slot, capacity - 1)
    # The token in each slot.
    held = jnp.zeros((blocks[count], experts, capacity), jnp.int32)
    to = clipped if overwrites else slot
    held = held.at[block, choice, to].set(tokens, mode="drop")
    source, worker = held[block, choice, clipped], choice
    if mixed:
        model = mesh.shape["model"]
        sender, own = block % model, experts // model
        worker = (
            choice // own * own + (sender * own + choice % own) // model
        )
    hidden = jnp.einsum("td,tdh->th", x[source], params["up"][worker])
    down = params["down"][worker]
    y = jnp.einsum("th,thd->td", jax.nn.gelu(hidden), down)
    y *= weights.max(1, keepdims=True) if weighted else 1
    instead: Any = {"zeros": 0, "passed": x, "read": y}[dropped]
    y = jnp.where(slot[:, None] < capacity, y, instead)
    return y, jnp.sum(slot >= capacity, dtype=jnp.int32)


def rival(
    why: str, read: str = "Problem", *, of: int = 0, **mistake: Any
) -> same.Rival:
    """Give y or dropped with a known mistake, and its sentence."""
    return same.Rival(
        lambda *given: mistaken(*given, **mistake)[of], why, read=read
    )


COUNT = jax.device_count()
# Two and three experts a device, and all of them on each. In the last, a
# device has more tokens of an expert than a byte can count.
CASES = [
    *([on(f"mesh_of(2, {COUNT // 2})", 512, 16, 6)] if COUNT >= 4 else []),
    on(f"mesh_of(1, {COUNT})", 256, 3 * COUNT, 3),
    on(f"mesh_of({COUNT}, 1)", 280 * COUNT, 6, 9, 270),
]
# One mesh with both axes, where there are enough devices.
SLOPED = CASES[:1] if COUNT >= 4 else CASES
EXAMPLE = CASES[0].call
STILL = "A router without a gradient"
CLIPPED = (
    "a slot beyond the capacity is clipped, so that a token gets the "
    "output of another one"
)
BEYOND = "A slot beyond the capacity that is clipped"
RIVALS = [
    rival(
        "y is not multiplied by the probability of its expert, so the "
        "router has no gradient",
        STILL,
        weighted=False,
    ),
    rival(
        "a dropped token is passed on, but its y must be zeros: the caller "
        "adds y to x",
        dropped="passed",
    ),
    rival(
        "the capacity counts for several devices together, but each device "
        "counts its own tokens",
        count="data",
    ),
    rival(
        "the capacity counts for all tokens together, but each device "
        "counts its own",
        count="all",
    ),
    rival(CLIPPED, BEYOND, overwrites=True),
    rival(CLIPPED, BEYOND, dropped="read"),
    rival(CLIPPED, BEYOND, overwrites=True, dropped="read"),
    rival(
        "tokens are sent to other experts than they have chosen: the slots "
        "that arrive are ordered by senders first",
        "Senders mixed up with experts",
        mixed=True,
    ),
]
LAST = rival(
    "of several experts that are equal, a token goes to the last, not to "
    "the first",
    of=1,
    last=True,
)
WRONG = "y is not the output of each token's expert"
DROPPED = "dropped is not the number of tokens that all devices dropped"
NOT_LEARNT = "the router has no gradient: y is weighted by a constant"
SLOPES = "a gradient of (y**2).sum() is wrong"
LAYOUT = 'y is not sharded as P(("data", "model")), like x'
SCALAR = "dropped is not replicated"
LAYOUTS = "a gradient is not sharded like its array"
MORE = (
    "a device computes more than the scores of its tokens, and the slots "
    "of its experts"
)
FORWARD = (
    "devices exchange more than two all-to-alls of the slots and a scalar"
)
BACKWARD = (
    'over "model", the gradients exchange more than four all-to-alls of '
    "the slots and the gradient of the router"
)
OVER_DATA = (
    'over "data", devices exchange more than the gradients of the experts '
    "and of the router"
)
CHECKS = (
    same.types(CASES),
    same.values(
        CASES,
        lambda seen: seen.result[0],
        WRONG,
        read="The API",
        rivals=RIVALS,
    ),
    same.values(CASES, lambda seen: seen.result[1], DROPPED, rivals=[LAST]),
    same.values(SLOPED, of_slopes(learns), NOT_LEARNT, read=STILL),
    same.values(
        SLOPED,
        of_slopes(lambda made: made.gradients),
        SLOPES,
        agree=Near([1e-3]),
    ),
    same.placement(CASES, shards_of(0), LAYOUT),
    same.placement(CASES, shards_of(1), SCALAR),
    same.placement(
        CASES,
        measures.flops,
        MORE,
        read="Tokens dispatched by a matrix product",
        agree=AtMost(ROOM, "FLOPs of matrix products on a device"),
    ),
    same.communication(
        CASES,
        measures.bytes_sent,
        FORWARD,
        read="On eight devices",
        agree=AtMost(ROOM, "bytes that a device sends", more=SCALARS),
    ),
    same.communication(SLOPED, of_slopes(sent_over_model), BACKWARD),
    same.communication(SLOPED, of_slopes(sent_over_data), OVER_DATA),
    # Last: what is communicated too much tells more of the cause.
    same.placement(
        SLOPED,
        of_slopes(lambda made: shards_by_path(made.gradients)),
        LAYOUTS,
    ),
)
# What to read when an attempt raises: words of the error, a section.
ERRORS = (
    ("varying|replicat|vma", "The API"),
    ("[Tt]racer|[Cc]oncret|divi(sible|de)|multiple of", "Problem"),
    ("all_to_all|dot_general|einsum|contract|broadcast|shape", "The API"),
)
