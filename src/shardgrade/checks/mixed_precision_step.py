"""What a right ``mixed_precision_step`` must show."""

import re
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from shardgrade.grading import measures, same

MAKE = "mixed_precision_step(mlp_error, %s, {mesh})"
PARAMS = "laid_out(mlp_kernels(16, 64, 24), P('data'), {mesh}), "
STEP = f"{PARAMS}examples(64, 16, 24, {{mesh}})"
# A bfloat16 number would not change by so little.
CASES = same.on_meshes(f"{MAKE % 0.01}({STEP})", programs=True)
EXAMPLE = CASES[0].call
# Another loss and tree, a batch with integers of rank 1, and a rate that
# makes the gradient plain to see: on eight devices, it is the mean of 256,
# six ones and -255, less 1/8 at each label. The scores are 0, because those
# of such rows would be rounded in too many ways.
LARGE = same.on_meshes(
    "mixed_precision_step(mean_score, 16.0, {mesh})("
    "laid_out([0 * normal(1008)], P('data'), {mesh}), laid_out("
    f"large_and_small({max(2, jax.device_count())}, 1008), "
    "P('data'), {mesh}))",
    programs=True,
)[-2]
REPEATED = same.on_meshes(
    MAKE % 0.5,
    step=STEP,
    then=f"{PARAMS}examples(32, 16, 24, {{mesh}})",
    given="where the next two calls take the parameters of the one before, "
    "and a fourth takes the first parameters again, and 32 examples",
    carry=True,
)[-2]

OPERATION = re.compile(
    r"stablehlo\.(all_gather|all_to_all|collective_permute|all_reduce|"
    r"reduce_scatter|dot_general)\b.*?: \(([^)]*)\) ->",
    re.DOTALL,
)
TENSOR = re.compile(r"tensor<((?:\d+x)*)(\w+)>")
MOVES = ("all_gather", "all_to_all", "collective_permute")
# A bfloat16 can travel as an integer of as many bits.
BITS = {"bf16", "i16", "ui16"}


@same.cache_case
def asked(attempt: same.Attempt, case: same.Case) -> dict[str, set[str]]:
    """Give the dtypes of each operation in what XLA is asked to compile.

    That of a single number, such as the loss, is ``"single f32"``.
    """
    (made, _), (given, _) = same.arguments(case.call)
    attempt.name_call(case.call, case.given)
    function: Any = attempt.function
    with attempt.running():
        text = jax.jit(function(*made)).lower(*given).as_text()
    found: dict[str, set[str]] = defaultdict(set)
    for name, operands in OPERATION.findall(text):
        for shape, dtype in TENSOR.findall(operands):
            single = "" if set(shape) - set("1x") else "single "
            found[name].add(single + dtype)
    return found


def name_other_dtypes(
    right: str, accept: Callable[[str], bool], *names: str
) -> Callable[[same.Seen], str]:
    """Give the function that names what is asked for in another dtype."""

    def describe(seen: same.Seen) -> str:
        found = asked(seen.attempt, seen.case)
        lines = [
            f"{name} of {dtype}"
            for name in names
            for dtype in sorted(found[name])
            if not accept(dtype)
        ]
        return "\n".join(lines) or right

    return describe


def describe_moves(seen: same.Seen) -> str:
    """Tell whether the program asks for parameters of other devices."""
    found = asked(seen.attempt, seen.case)
    # A single device has them all.
    alone = seen.arguments[2].shape["data"] == 1
    some = alone or any(found[name] for name in MOVES)
    return f"{'an' if some else 'no'} all_gather in the program"


def change(seen: same.Seen) -> Any:
    """Give by how much the parameters have changed."""
    old, _ = same.make_arguments(seen.attempt, seen.case)
    return jax.tree.map(
        lambda a, b: np.asarray(a) - np.asarray(b), seen.result[0], old
    )


WRONG = (
    "the parameters do not change by rate times the mean gradient. "
    "Gradients that are added up in bfloat16 give another result too"
)
LOSS = (
    "this is not the loss before the update, averaged over the rows of the "
    "global batch"
)
LAYOUT = 'the parameters are not sharded as P("data"), or the loss not P()'
LATER = (
    "a later call returns other parameters, or another loss, than its "
    "arguments and the rate give"
)
ASK = (
    "the program that you wrote leaves it to the compiler what the devices "
    "send, and in which dtype: write the collectives in shard_map"
)
KEPT = "the old parameters stay in memory after a step: donate them"
COMPILED = "a later call was compiled again: compile the step once, outside"
ALL = [LARGE, *CASES]
CHECKS = {
    "types": same.types(ALL),
    "wrong": same.values(LARGE, change, WRONG, agree=same.Near([0.02])),
    "loss": same.values(
        ALL, lambda seen: seen.result[1], LOSS, agree=same.Near([0.01])
    ),
    "rounded": same.values(
        CASES,
        change,
        "the parameters change by something else than rate times the mean "
        "gradient. Make sure that you subtract it in float32, from the "
        "float32 parameters",
        read="An update in bfloat16",
        agree=same.Near([0.02]),
    ),
    "layout": same.placement(CASES, measures.shards, LAYOUT),
    "products": same.structure(
        ALL,
        name_other_dtypes(
            "dot_general of bf16",
            lambda dtype: dtype.removeprefix("single ") in BITS,
            "dot_general",
        ),
        "the loss is not given bfloat16 parameters",
        read="The API",
    ),
    "ask": same.communication(
        ALL, describe_moves, ASK, read="The same under `jit`"
    ),
    "gathers": same.communication(
        ALL,
        name_other_dtypes(
            "all_gather of bf16",
            lambda dtype: dtype in BITS or dtype.startswith("single"),
            "all_gather",
        ),
        "the parameters are gathered before they are cast to bfloat16",
        read="Cast, then gather",
    ),
    "sums": same.communication(
        ALL,
        name_other_dtypes(
            "sums of f32",
            lambda dtype: not re.match(r"(single )?b?f(16|8)", dtype),
            "all_reduce",
            "reduce_scatter",
        ),
        "gradients, or a single number such as the loss, are added up in "
        "bfloat16: cast to float32 before the devices add up",
        read="A gradient through the cast",
    ),
    "more": same.communication(
        CASES,
        measures.bytes_sent,
        "a device sends more than one all-gather of the parameters, one "
        "reduce-scatter of their gradients, and the loss",
        read="On eight devices",
        agree=same.AtMost(1.05, same.SENT, more=64),
    ),
    "later": same.values(
        REPEATED, measures.step_results, LATER, agree=same.Near([0.02])
    ),
    "kept": same.placement(REPEATED, measures.step_kept("0"), KEPT),
    "compiled": same.structure(
        REPEATED, measures.step_compilations, COMPILED
    ),
}
