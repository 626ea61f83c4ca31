"""What a right ``sequence_parallel_block`` must show."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from shardgrade.grading import measures, same
from shardscope.programs.program import program
from shardscope.programs.report import Program

# Bytes that a device may send for each feature of scale: its gradient in
# float32 is added up over both axes, which in a ring sends twice as much.
A_FEATURE = 16


def limits(seen: same.Seen) -> dict[str, int]:
    """Count what a device may send, or hold, by the name of a check."""
    params, x, mesh = same.make_arguments(seen.attempt, seen.case)
    data, model = mesh.shape["data"], mesh.shape["model"]
    features, units = params["up"].shape
    # The tokens of a device's rows, its hidden units, and its kernels.
    whole = x.nbytes // data
    hidden = whole // features * units // model
    kernels = 2 * params["up"].nbytes // model
    gather, scale = whole * (model - 1) // model, A_FEATURE * features
    return {
        "forward": 2 * gather,
        "backward": 5 * gather + scale,
        # In a ring, an all-reduce sends so many times its bytes.
        "over_data": 2 * kernels * (data - 1) // data + scale,
        "memory": 4 * whole + 5 * (whole // model) + 4 * hidden,
    }


@same.cache_case
def compiled_step(attempt: same.Attempt, case: same.Case) -> Any:
    """Compile the gradients of the sum of squares of y."""
    params, x, mesh = same.make_arguments(attempt, case)
    attempt.name_call(case.call, case.given)
    block: Any = attempt.function

    def loss(params: Any, x: Any) -> Any:
        y = block(params, x, mesh)
        return (y**2).sum(), y

    step = jax.jit(jax.grad(loss, argnums=(0, 1), has_aux=True))
    with attempt.running():
        return step.lower(params, x).compile()


@same.cache_case
def report(attempt: same.Attempt, case: same.Case) -> Program:
    """Read the program of the gradients."""
    return program(compiled_step(attempt, case))


@same.cache_case
def varied(attempt: same.Attempt, case: same.Case) -> dict[str, Any]:
    """Give y and the gradients, of the tokens and with some as padding."""
    params, x, _ = same.make_arguments(attempt, case)
    # In NumPy: jax would compile each edit.
    tokens = np.array(x)
    tokens[:, -1], tokens[:, -2] = 0, tokens[:, -2] / 1000
    found = {}
    for name, some in (
        ("given", x),
        ("padded", jax.device_put(tokens, x.sharding)),
    ):
        run = compiled_step(attempt, case)
        with attempt.running():
            (slopes, of_x), y = jax.block_until_ready(run(params, some))
        found[name] = {
            **{f"gradient of {key}": slopes[key] for key in sorted(slopes)},
            "gradient of x": of_x,
            "y": y,
        }
    return found


def step_of(name: str, *arrays: str) -> Callable[[same.Seen], Any]:
    """Give the function that gives these of a step's arrays, or all."""

    def of(seen: same.Seen) -> dict[str, Any]:
        found = varied(seen.attempt, seen.case)[name]
        return {each: found[each] for each in arrays or found}

    return of


def sent_forward(seen: same.Seen) -> same.Limited:
    """Count what a call sends."""
    limit = limits(seen)["forward"]
    return same.Limited(measures.bytes_sent(seen), limit, same.SENT)


def count_sent_over_model(seen: same.Seen) -> same.Limited:
    """Count what a gradient sends, but over "data" alone."""
    step = report(seen.attempt, seen.case)
    return same.Limited(
        step.sent() - step.sent("data"),
        limits(seen)["backward"],
        f'{same.SENT} over "model", or over all devices',
    )


def count_sent_over_data(seen: same.Seen) -> same.Limited:
    """Count what a gradient sends over "data"."""
    count = report(seen.attempt, seen.case).sent("data")
    limit = limits(seen)["over_data"]
    return same.Limited(count, limit, f'{same.SENT} over "data"')


def count_temporaries(seen: same.Seen) -> same.Limited:
    """Count the bytes of the intermediates of a gradient."""
    held = report(seen.attempt, seen.case).memory.temporaries
    return same.Limited(held, limits(seen)["memory"], same.HELD)


def block_of(
    batch: int, length: int, dim: int, hidden: int, *, programs: bool = True
) -> list[same.Case]:
    """Call it on each mesh, with arrays of these sizes."""
    return same.on_meshes(
        "in_jit(sequence_parallel_block)("
        f"laid_out(block_params({dim}, {hidden}), BLOCK_SPECS, {{mesh}}), "
        f"laid_out(normal({batch}, {length}, {dim}), P('data', 'model'), "
        "{mesh}), {mesh})",
        programs=programs,
    )


# Few tokens and many hidden units: to gather kernels would be dearer.
CASES = block_of(8, 16, 32, 256)
# Many tokens and few hidden units, with all devices along "model".
LONG = block_of(4, 64, 32, 16, programs=False)[-1:]
EXAMPLE = CASES[0].call
WRONG = "this is not x + gelu(rms_norm(x, scale) @ up) @ down"
SLOPES = "for the loss (y**2).sum(), y or a gradient is wrong"
ZEROS = (
    "where the last token of each row is zeros, and the one before is "
    "divided by 1,000, y or a gradient is wrong. The 1e-6 in the norm "
    "matters there, and where it is added"
)
LAYOUT = 'the result is not sharded as P("data", "model")'
FORWARD = (
    'the devices send more than one all-gather over "model" and one '
    "reduce-scatter of the tokens. Write both in jax.shard_map, over both "
    "mesh axes, so that each device keeps its rows of the batch and its "
    "parts of the kernels"
)
BACKWARD = (
    'over "model", the gradient sends more than two gathers of the tokens '
    "and two reduce-scatters, and one gather more in the backward pass"
)
OVER_DATA = (
    'over "data", more is sent than the gradients of kernels and scale, '
    "each once. Perhaps shard_map adds up the gradient of a kernel for "
    "each use: mark kernels once, before all uses, with "
    'jax.lax.pcast(kernel, "data", to="varying")'
)
MEMORY = (
    "the intermediates of the gradient take too much memory: a device "
    "should keep only what the matmuls need of others' tokens, so "
    "normalize and scale its own ones before the gather"
)
OTHERS = [f"gradient of {name}" for name in ("up", "down", "x")]
NEAR = same.Near([1e-3])
CHECKS = {
    "types": same.types(CASES),
    "wrong": same.values(CASES, measures.result, WRONG),
    "scale": same.values(
        CASES,
        step_of("given", "gradient of scale"),
        "for the loss (y**2).sum(), the gradient of scale is wrong",
        read="A scale whose gradient is not summed",
        agree=NEAR,
    ),
    "slopes": same.values(
        CASES, step_of("given", *OTHERS, "y"), SLOPES, agree=NEAR
    ),
    "zeros": same.values(CASES, step_of("padded"), ZEROS, agree=NEAR),
    "layout": same.placement(CASES, measures.shards, LAYOUT),
    "forward": same.communication(
        CASES, sent_forward, FORWARD, read="An all-reduce, then a slice"
    ),
    "backward": same.communication(
        CASES, count_sent_over_model, BACKWARD, read="On eight devices"
    ),
    "over_data": same.communication(
        CASES, count_sent_over_data, OVER_DATA, read="On eight devices"
    ),
    "memory": same.memory(
        LONG, count_temporaries, MEMORY, read="A norm after the gather"
    ),
}
