"""What a right ``explicit_mlp`` must show."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import jax

from shardgrade.grading import measures, same
from shardscope.programs.report import Program

GIVEN = (
    "where jax.jit(jax.value_and_grad(loss, argnums=(0, 1)))(params, x) is "
    "called, and loss is (y**2).sum(axis=1).mean()"
)
# What the loss may take, beside the gradients.
SCALARS = 64


@same.cache_case
def take_gradients(
    attempt: same.Attempt, case: same.Case
) -> tuple[Any, Program]:
    """Take the gradients of a loss under jit, and give the program too."""
    attempt.name_call(case.call, case.given)
    function: Any = attempt.function

    def loss(params: Any, x: jax.Array) -> Any:
        return (function(params, x) ** 2).sum(axis=1).mean()

    step = jax.value_and_grad(loss, argnums=(0, 1))
    (_, gradients), report = same.compile_and_run(
        attempt, step, *same.make_arguments(attempt, case)
    )
    return gradients, report


of_steps = partial(same.measure_made, take_gradients)


def type_of(seen: same.Seen) -> str:
    """Write the type of what was returned, with its sharding."""
    return str(jax.typeof(seen.result))


def over(axis: str) -> Callable[[same.Seen], int]:
    """Give the function that counts what is sent: over "data", or else."""

    def count(made: tuple[Any, Program]) -> int:
        data = made[1].sent("data")
        return data if axis == "data" else made[1].sent() - data

    return of_steps(count)


def branches(rows: int, dim: int, *hidden: int) -> list[same.Case]:
    """Add up branches on each mesh, of Explicit axes."""
    return same.on_meshes(
        f"in_jit(explicit_mlp)(mlp_branches({dim}, {list(hidden)}, "
        f"explicit({{mesh}})), laid_out(normal({rows}, {dim}), P('data'), "
        "explicit({mesh})))",
        programs=True,
    )


CASES = branches(32, 16, 40, 80, 120)
EXAMPLE = CASES[0].call
CASES += branches(64, 24, 32, 8)[:1] + branches(16, 8, 8, 16, 24, 8)[:1]
STEPS = [replace(case, given=GIVEN, programs=False) for case in CASES]
TYPE = (
    "the type of the result, as jax.typeof prints it, is not that of x: "
    "float32[batch@data,dim]"
)
WRONG = "this is not x plus gelu(x @ up) @ down of each branch"
FORWARD = (
    "the forward pass sends more than one sum of the branches over "
    '"model": gather neither kernels nor rows, let each device add up its '
    "own terms, and add up those of the devices once"
)
MODEL = (
    'with the backward pass, a device sends more than two sums over "model"'
    ": mark x before all branches, as reduced or in shard_map by "
    "jax.lax.pcast, and keep check_vma, without which the derivative of a "
    "psum is another psum"
)
MIXED = "An unreduced sum that meets something else"
LEFT = "A result that is left unreduced"
EACH = "A sum for each branch"
BACK = "A gradient that is added up for each branch"
BYTES = same.AtMost(1, same.SENT)
CHECKS = {
    "types": same.types(CASES),
    "type": same.contract(CASES, type_of, TYPE, read=LEFT),
    "wrong": same.values(CASES, measures.result, WRONG),
    "slopes": same.values(
        STEPS,
        of_steps(lambda made: made[0]),
        "a gradient of the kernels or of x is wrong",
        agree=same.Near([1e-3]),
    ),
    "forward": same.communication(
        CASES, measures.bytes_sent, FORWARD, read=EACH, agree=BYTES
    ),
    "model": same.communication(
        STEPS, over("model"), MODEL, read=BACK, agree=BYTES
    ),
    "data": same.communication(
        STEPS,
        over("data"),
        'over "data", a device sends more than the gradients of the '
        "kernels, each once. In shard_map, each use of a kernel is a sum "
        'over "data": mark the kernels once, before all uses, with '
        'jax.lax.pcast(kernel, "data", to="varying")',
        agree=replace(BYTES, more=SCALARS),
        read="The same in `shard_map`",
    ),
}
# What to read when an attempt raises: words of the error, a section.
ERRORS = (
    ("is unreduced while|non-linear|cannot be unreduced", MIXED),
    ("unreduced/reduced rule|along the same axes", MIXED),
    ("UniqueIndexDomains|doesn't work with unreduced", LEFT),
)
