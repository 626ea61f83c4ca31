"""What a right ``scan_layers`` must show."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax

from shardgrade.grading import measures, same
from shardscope.programs.collective import Collective
from shardscope.programs.report import Program

GIVEN = (
    "where jax.jit(jax.grad(loss, argnums=(0, 1)))(stacked, x) is called, "
    "and loss is (y**2).sum(axis=1).mean()"
)
# How much longer the text of a program with twice the layers may be.
GROWTH = 1.1
# Layers that may be whole in a device's temporaries at once.
WHOLE = 3


@dataclass(frozen=True, eq=False)
class Trained:
    """A gradient step, and what came of it.

    Attributes:
        layers: How many layers there are.
        layer: Bytes of the parameters of a layer.
        sharded: Bytes of those of them that are sharded.
        shards: Bytes of a device's shards of all layers.
        gradients: Those of the stacked parameters and of x.
        program: What was compiled.
    """

    layers: int
    layer: int
    sharded: int
    shards: int
    gradients: tuple[Any, Any]
    program: Program

    @property
    def gathers(self) -> list[Collective]:
        """The all-gathers of the program."""
        kind = "all-gather"
        return [c for c in self.program.communication if c.kind == kind]


@same.cache_case
def take_gradients(attempt: same.Attempt, case: same.Case) -> Trained:
    """Take the gradients of a loss under jit."""
    block, stacked, x, specs, mesh = same.make_arguments(attempt, case)
    attempt.name_call(case.code, case.given)
    scan = attempt.function
    assert scan

    def loss(stacked: Any, x: jax.Array) -> Any:
        y = scan(block, stacked, x, specs, mesh)
        return (y**2).sum(axis=1).mean()

    step = jax.grad(loss, argnums=(0, 1))
    gradients, report = same.compile_and_run(attempt, step, stacked, x)
    leaves = jax.tree.leaves(stacked)
    layers, parts = len(leaves[0]), mesh.shape["data"]
    sharded = sum(
        leaf.nbytes
        for leaf, spec in zip(leaves, jax.tree.leaves(specs), strict=True)
        if "data" in spec and parts > 1
    )
    total = sum(leaf.nbytes for leaf in leaves)
    return Trained(
        layers=layers,
        layer=total // layers,
        sharded=sharded // layers,
        shards=total - sharded + sharded // parts,
        gradients=gradients,
        program=report,
    )


of_steps = partial(same.measure_made, take_gradients)


def describe_largest_gather(made: Trained) -> str:
    """Say how much the largest all-gather makes, if it is too much."""
    size = max((c.bytes * c.group for c in made.gathers), default=0)
    if size <= made.layer:
        return "an all-gather makes at most one layer"
    return f"an all-gather makes {size / made.layer:.1f} layers"


def describe_gathers(made: Trained) -> str:
    """Say what the turns gather, if it is not what they need."""
    for each in made.gathers:
        if each.times != made.layers:
            return f"an all-gather that runs {each.times} times"
    size = sum(c.bytes * c.group for c in made.gathers)
    if size < made.sharded:
        return f"a turn gathers {size:,} of {made.sharded:,} bytes"
    return f"{made.layers} turns that gather all sharded parameters"


def compare_growth(made: Trained, shallow: Trained) -> str:
    """Compare the text of a program with that of half as many layers."""
    ratio = len(made.program.text) / len(shallow.program.text)
    if ratio <= GROWTH:
        return f"at most {GROWTH} times the text for twice the layers"
    return f"{ratio:.2f} times the text for twice the layers"


def count_temporaries(made: Trained) -> same.Limited:
    """Count the bytes of temporaries."""
    size = made.program.memory.temporaries
    limit = WHOLE * made.layer + made.shards
    return same.Limited(size, limit, "bytes of temporaries on a device")


def scan(
    layers: int, dim: int, hidden: int, rows: int, given: str = ""
) -> list[same.Case]:
    """Scan over the layers of a model, on each mesh."""
    return same.on_meshes(
        "in_jit(scan_layers)("
        f"residual_block, laid_out(stacked_params({layers}, "
        f"{dim}, {hidden}), STACKED_SPECS, {{mesh}}), laid_out(normal("
        f"{rows}, {dim}), P('data'), {{mesh}}), STACKED_SPECS, {{mesh}})",
        given=given,
    )


def other(given: str = "", sign: str = "-") -> list[same.Case]:
    """Scan over other layers: a list of a matrix and a number each."""
    specs = "[P(None, 'data'), P(None)]"
    return same.on_meshes(
        "in_jit(scan_layers)("
        f"lambda p, x: x {sign} p[1] * (x @ p[0]), "
        f"laid_out([normal(5, 8, 8), normal(5) / 4], {specs}, {{mesh}}), "
        f"laid_out(normal(16, 8), P('data'), {{mesh}}), {specs}, {{mesh}})",
        given=given,
    )[-2:-1]


# An x that is larger than a layer: to gather the layer is cheaper.
CASES = scan(12, 16, 64, 512)
EXAMPLE = CASES[0].call
CASES += other()
PLUS = other(sign="+")
STEPS = scan(12, 16, 64, 512, GIVEN)
ALL = STEPS + other(GIVEN)
# With a row on each device, there is little but parameters to keep.
ROWS = jax.device_count()
(SHALLOW,) = scan(12, 64, 256, ROWS, GIVEN)[-2:-1]
DEEP = scan(24, 64, 256, ROWS, GIVEN)[-2:-1]
OUTPUT = "this is not x after all layers"
STALE = "a later call with another block does not return what block gives"
SLOPES = "a gradient of stacked or of x is wrong"
LAYOUT = 'y is not sharded as P("data")'
LARGE = "more than one layer is gathered at once"
FIRST = "Parameters gathered before the scan"
CHECKS = {
    "types": same.types(CASES),
    "output": same.values(CASES, measures.result, OUTPUT),
    "stale": same.values(PLUS, measures.result, STALE),
    "layout": same.placement(CASES, measures.shards, LAYOUT),
    "slopes": same.values(
        ALL, of_steps(lambda made: made.gradients), SLOPES
    ),
    "grows": same.structure(
        DEEP,
        lambda seen: compare_growth(
            *(
                take_gradients(seen.attempt, each)
                for each in (*DEEP, SHALLOW)
            )
        ),
        "the program grows with the number of layers: use jax.lax.scan",
        read="A Python loop over the layers",
    ),
    "large": same.communication(
        ALL, of_steps(describe_largest_gather), LARGE, read=FIRST
    ),
    "turn": same.communication(
        ALL,
        of_steps(describe_gathers),
        "each layer's parameters must be gathered in its own turn of the "
        "loop: gather nothing before the loop, and do not unroll it",
        read="Parameters gathered before the scan",
    ),
    "spread": same.placement(
        ALL,
        of_steps(lambda made: measures.shards_by_path(made.gradients[0])),
        "a gradient of stacked is not sharded by specs",
        read="The same under `jit`",
    ),
    "held": same.memory(
        DEEP,
        of_steps(count_temporaries),
        "too much is kept for the backward pass: free the gathered "
        "parameters of a layer after its turn, and gather them again, by "
        "jax.checkpoint around the function that scan calls",
        read="What is kept and what is not",
    ),
}
