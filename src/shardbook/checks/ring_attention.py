"""What a right ``ring_attention`` must show."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from shardbook.grading import measures, same
from shardbook.grading.agreement import Near, limited
from shardbook.grading.attempt import Attempt, arguments
from shardbook.grading.cases import (
    Case,
    Seen,
    compiled,
    of_made,
    once,
)
from shardbook.grading.measures.placement import shards_by_path
from shardbook.tools.program.program import program
from shardbook.tools.program.report import Program

GIVEN = (
    "where jax.jit(jax.grad(loss, argnums=(0, 1, 2)))(q, k, v) is called, "
    "and loss is (y**2).sum()"
)
# Bytes that a device may send for the sum of a loss.
SCALARS = 64
HEADS, LENGTH, HEAD_DIM = 2, 256, 8


@dataclass(frozen=True, eq=False)
class Slopes:
    """The gradients of a loss for several arguments, and their program.

    Attributes:
        found: Output and gradients, by the name of the arguments.
        program: What was compiled, once.
    """

    found: dict[str, dict[str, Any]]
    program: Program


@once
def given(attempt: Attempt, case: Case) -> list[Any]:
    """Make the arguments of an attempt in a call."""
    _, (found, _) = arguments(case.call, ring_attention=attempt.function)
    return found


@once
def slopes(attempt: Attempt, case: Case) -> Slopes:
    """Take the gradients of a loss under jit."""
    q, k, v, mesh = given(attempt, case)
    attempt.name_call(case.call, GIVEN)
    function: Any = attempt.function

    def loss(q: Any, k: Any, v: Any) -> Any:
        y = function(q, k, v, mesh)
        return (y**2).sum(), y

    def both(*three: Any) -> Any:
        found, y = jax.grad(loss, argnums=(0, 1, 2), has_aux=True)(*three)
        return dict(zip("qkvy", (*found, y), strict=True))

    with attempt.running():
        run = jax.jit(both).lower(q, k, v).compile()
        found = {
            "given": run(q, k, v),
            # Scores of 1,000 and more: exp(89) is infinite in float32.
            "large": run(16 * q, 16 * k, v),
            # All near -400: where none is above -104, exp gives 0.
            "low": run(q + 12, k - 12, v),
        }
        jax.block_until_ready(found)
    return Slopes(found, program(run))


of_slopes = partial(of_made, slopes)


def found_of(name: str) -> Callable[[Seen], Any]:
    """Give the function that gives output and gradients by name."""
    return of_slopes(lambda made: made.found[name])


def sizes(seen: Seen) -> tuple[int, int, int]:
    """Give the bytes of a block and of its scores, and the devices."""
    q, *_, mesh = given(seen.attempt, seen.case)
    n = mesh.shape["model"]
    tokens = q.size // HEAD_DIM // mesh.size  # of each head
    return 4 * tokens * HEAD_DIM, 4 * tokens * LENGTH // n, n


def forward(seen: Seen) -> list[Program]:
    """Give the programs of a call."""
    return list(compiled(seen.attempt, seen.case))


def sent_forward(seen: Seen) -> str:
    """Describe what is sent for the output."""
    block, _, n = sizes(seen)
    count = sum(each.sent() for each in forward(seen))
    return f"{limited(count, 2 * (n - 1) * block)} bytes from a device"


def held_forward(seen: Seen) -> str:
    """Describe the intermediates of the output."""
    block, scores, _ = sizes(seen)
    count = max(each.memory.temporaries for each in forward(seen))
    return f"{limited(count, 8 * block + 4 * scores)} bytes on a device"


def sends_again(seen: Seen) -> bool:
    """Tell whether the backward pass has little enough to send more."""
    block, scores, _ = sizes(seen)
    report = slopes(seen.attempt, seen.case).program
    return report.memory.temporaries <= 8 * block + 6 * scores


def sent_in_all(seen: Seen) -> str:
    """Describe what is sent for the output and its gradients."""
    block, _, n = sizes(seen)
    count = slopes(seen.attempt, seen.case).program.sent()
    limit = (4 * (n - 1)) * block + SCALARS
    # All of it twice, and the gradients of keys and values come home.
    if sends_again(seen) and count <= 6 * n * block + SCALARS:
        count = limit
    return f"{limited(count, limit)} bytes from a device"


def held_in_all(seen: Seen) -> str:
    """Describe the intermediates of the output and its gradients."""
    block, scores, n = sizes(seen)
    count = slopes(seen.attempt, seen.case).program.memory.temporaries
    limit = (3 * n + 8) * block + 8 * scores
    return f"{limited(count, limit)} bytes on a device"


def masked_by(
    sees: Callable[[Any, Any, Any, int], Any],
) -> Callable[[Any, Any, Any, Mesh], Any]:
    """Give attention with another mask, of device, block and tokens."""

    def answer(q: Any, k: Any, v: Any, mesh: Mesh) -> Any:
        n = mesh.shape["model"]
        size = q.shape[1] // n
        column = jnp.arange(q.shape[1])
        row = column[:, None]
        ahead = column % size - row % size
        mask = sees(row // size, column // size, ahead, n)[None, None]
        return jax.nn.dot_product_attention(q, k, v, mask=mask)

    return answer


def on(
    data: int,
    model: int,
    scale: int = 1,
    dtype: str = "",
    head_dim: int = HEAD_DIM,
) -> Case:
    """Call it inside jit, on a mesh."""
    mesh, batch = f"mesh_of({data}, {model})", max(2, data)
    times = f"{scale} * " if scale > 1 else ""
    as_dtype = f".astype('{dtype}')" if dtype else ""

    def array(seed: int) -> str:
        shape = f"{batch}, {LENGTH}, {HEADS}, {head_dim}"
        made = f"({times}normal({shape}, seed={seed})){as_dtype}"
        return f"laid_out({made}, P('data', 'model'), {mesh})"

    three = ", ".join(map(array, range(3)))
    return Case(f"in_jit(ring_attention)({three}, {mesh})", programs=True)


COUNT = jax.device_count()
CASES = [
    *([on(2, COUNT // 2)] if COUNT >= 4 else []),
    on(COUNT, 1),
    on(1, COUNT),
]
# One device along "model" has no ring to differentiate.
SLOPED = [*CASES[:-2], CASES[-1]]
# bfloat16 would round many of these scores by 1/4, but not q divided by
# the root of head_dim.
NARROW = [on(1, COUNT, 8, "bfloat16", head_dim=16)]
EXAMPLE = CASES[0].call
EIGHT, LOCAL = "On eight devices", "Positions within a block"
RIVALS = [
    same.Rival(
        masked_by(lambda own, block, ahead, n: ahead <= 0),
        "the mask compares positions within blocks, not in the sequence",
        read=LOCAL,
    ),
    same.Rival(
        masked_by(
            lambda own, block, ahead, n: (
                ((2 * own - block) % n < own)
                | ((2 * own - block) % n == own) & (ahead <= 0)
            )
        ),
        "the mask takes blocks for those of devices on the other side of "
        "the ring",
        read=LOCAL,
    ),
    same.Rival(
        masked_by(lambda own, block, ahead, n: own + block >= 0),
        "tokens attend to later tokens",
        read="Problem",
    ),
]
WRONG = "this is not causal attention"
SLOPES = "y or a gradient of (y**2).sum() is wrong"
LARGE = f"with 16 times q and k, for scores of thousands, {SLOPES}"
LOW = f"with q + 12 and k - 12, for scores near -400, {SLOPES}"
BFLOAT16 = "for bfloat16 arrays, scores and sums must be float32"
LAYOUT = 'y is not sharded as P("data", "model")'
LAYOUTS = "a gradient is not sharded like its array"
HOPS = "a block of keys and one of values make more than model - 1 hops"
BACKWARD = (
    "for y and its gradients, devices send more than 4 * (model - 1) "
    "blocks, and keep too much for 6 * model blocks"
)
ROWS = "the intermediates of y take more than 8 A + 4 S bytes"
KEPT = (
    "the intermediates of y and its gradients take more than "
    "(3 model + 8) A + 8 S bytes"
)
MAXIMUM = "A sum without its maximum"
CLOSE = Near([1e-3])
CHECKS = (
    same.types(CASES),
    same.values(CASES, measures.result, WRONG, rivals=RIVALS),
    *(
        same.values(
            SLOPED,
            found_of(name),
            why,
            read=read,
            agree=CLOSE,
        )
        for name, why, read in (
            ("given", SLOPES, "Problem"),
            ("large", LARGE, MAXIMUM),
            ("low", LOW, MAXIMUM),
        )
    ),
    same.types(NARROW),
    same.values(
        NARROW,
        measures.result,
        BFLOAT16,
        read="The API",
        agree=Near([0.02]),
    ),
    same.placement(CASES, measures.shards, LAYOUT),
    same.placement(
        SLOPED,
        of_slopes(lambda made: shards_by_path(made.found["given"])),
        LAYOUTS,
    ),
    same.communication(CASES, sent_forward, HOPS, read="One hop too many"),
    same.placement(CASES, held_forward, ROWS, read=EIGHT),
    same.placement(SLOPED, held_in_all, KEPT, read="Scores that are kept"),
    same.communication(SLOPED, sent_in_all, BACKWARD, read="Solution"),
)
# What to read when an attempt raises: words of the error, a section.
ERRORS = (
    ("varying|replicat|vma|carry", "The API"),
    ("pmax", "The API"),
    ("divi(sible|de)|multiple of", "Problem"),
    ("dot_general|einsum|contract|broadcast|shape", "The API"),
)
