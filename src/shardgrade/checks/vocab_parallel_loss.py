"""What a right ``vocab_parallel_loss`` must show."""

from collections.abc import Callable
from typing import Any

import jax
from jax.sharding import Mesh

from shardgrade.grading import measures, same
from shardscope.programs.program import program
from shardscope.programs.report import Program

# Bytes that a device may send for scalars: for each of its tokens over
# "model", and for all of them over "data".
A_TOKEN, SCALARS = 256, 128


def jitted(attempt: same.Attempt, mesh: Mesh) -> tuple[Any, Any]:
    """Give the loss and the gradients of 64 times the loss, under jit."""
    function: Any = attempt.function

    @jax.jit
    def loss(hidden: Any, embedding: Any, labels: Any) -> Any:
        return function(hidden, embedding, labels, mesh)

    @jax.jit
    def slopes(hidden: Any, embedding: Any, labels: Any) -> Any:
        def scaled(*pair: Any) -> Any:
            return 64 * function(*pair, labels, mesh)

        pair = jax.grad(scaled, argnums=(0, 1))(hidden, embedding)
        names = "gradient of hidden", "gradient of embedding"
        return dict(zip(names, pair, strict=True))

    # What has been compiled for a mesh is good for all cases on it.
    kept: tuple[Any, Any] = attempt.seen.setdefault(mesh, (loss, slopes))
    return kept


@same.cache_case
def varied(attempt: same.Attempt, case: same.Case) -> dict[str, Any]:
    """Give loss and gradients for other arguments of the same shapes."""
    hidden, embedding, labels, mesh = same.make_arguments(attempt, case)
    attempt.name_call(case.call, case.given)
    found = {}
    for name, some, those in (
        ("given", hidden, labels),
        # Logits up to 2,000: exp(89) is too large for float32, and where
        # all are below -104, all exponentials are 0.
        ("large", 90 * hidden, labels),
        ("none", hidden, 0 * labels - 1),
    ):
        loss, slopes = jitted(attempt, mesh)
        with attempt.running():
            value = {"loss": loss(some, embedding, those)}
            found[name] = value | slopes(some, embedding, those)
            jax.block_until_ready(found[name])
    return found


def under_jit(name: str) -> Callable[[same.Seen], Any]:
    """Give the function that gives the loss and its gradients by name."""
    return lambda seen: varied(seen.attempt, seen.case)[name]


@same.cache_case
def compile_slopes(attempt: same.Attempt, case: same.Case) -> Program:
    """Compile the gradients of a case, and with them the loss."""
    *arrays, mesh = same.make_arguments(attempt, case)
    attempt.name_call(case.call, case.given)
    _, slopes = jitted(attempt, mesh)
    with attempt.running():
        # What a call has compiled is not compiled again.
        return program(slopes.lower(*arrays).compile())


def describe_shards(seen: same.Seen) -> dict[str, str]:
    """Describe which device holds which slice of the gradients."""
    found = under_jit("given")(seen).items()
    return {name: measures.describe_shards(each) for name, each in found}


def limits(seen: same.Seen) -> dict[str, int]:
    """Count what a device may send, or hold, by the name of a check."""
    *arrays, labels, mesh = same.make_arguments(seen.attempt, seen.case)
    data, model = mesh.shape["data"], mesh.shape["model"]
    tokens, features = labels.size // data, arrays[1].shape[1]
    hidden, embedding = (
        each.nbytes // parts
        for each, parts in zip(arrays, (data, model), strict=True)
    )
    # In a ring, an all-reduce sends so many times its bytes.
    return {
        "over_model": A_TOKEN * tokens + 2 * hidden * (model - 1) // model,
        "over_data": SCALARS + 2 * embedding * (data - 1) // data,
        # Four blocks of logits and the shards.
        "rows": 4 * (tokens * embedding // features)
        + 2 * (hidden + embedding),
    }


def count_sent_over_model(seen: same.Seen) -> same.Limited:
    """Count what a device sends, but over "data" alone."""
    step = compile_slopes(seen.attempt, seen.case)
    count = step.sent() - step.sent("data")
    return same.Limited(count, limits(seen)["over_model"], same.SENT)


def count_sent_over_data(seen: same.Seen) -> same.Limited:
    """Count what a device sends over "data"."""
    count = compile_slopes(seen.attempt, seen.case).sent("data")
    return same.Limited(count, limits(seen)["over_data"], same.SENT)


def count_temporaries(seen: same.Seen) -> same.Limited:
    """Count the bytes of the intermediates."""
    held = compile_slopes(seen.attempt, seen.case).memory.temporaries
    unit = "bytes of temporaries on a device"
    return same.Limited(held, limits(seen)["rows"], unit)


def loss_of(dtype: str) -> list[same.Case]:
    """Call it on each mesh, with hidden and embedding of this dtype."""
    as_dtype = f".astype('{dtype}')"
    return same.on_meshes(
        "in_jit(vocab_parallel_loss)("
        f"laid_out(normal(256, 64){as_dtype}, P('data'), {{mesh}}), "
        f"laid_out((normal(2048, 64, seed=1) / 4 + 0.5){as_dtype}, "
        "P('model'), {mesh}), laid_out(labels(256, 2048, left_out=40), "
        "P('data'), {mesh}), {mesh})"
    )


CASES = loss_of("float32")
BFLOAT16 = loss_of("bfloat16")[:1]
EXAMPLE = CASES[0].call
WRONG = "this is not the mean cross entropy of the tokens with a label"
SLOPES = "the loss, or a gradient of 64 times the loss, is not right"
LARGE = f"with 90 times hidden, for logits up to 2,000, {SLOPES}"
NONE = f"with labels of -1 alone, {SLOPES}: all three are 0"
NARROW = "of bfloat16 arrays, the logits and the loss must be float32"
LAYOUTS = (
    "the loss is not replicated, or the gradients are not sharded like "
    "hidden and embedding; a device whose gradient of embedding is whole "
    "computes all words"
)
OVER_MODEL = (
    'over "model", devices exchange more than a few numbers for a token '
    "and the gradient of hidden"
)
OVER_DATA = (
    'over "data", devices exchange more than a few scalars and the '
    "gradient of embedding"
)
ROWS = "the intermediates take more than four blocks of logits"
EIGHT = "On eight devices"
CHUNKS = "Chunks that each add up a gradient"
# The gradients, which come first by name, and the loss.
CLOSE = same.Near([1e-3, 1e-3, 1e-4])
CHECKS = {
    "types": same.types(CASES),
    "wrong": same.values(CASES, measures.result, WRONG),
    "types_2": same.types(BFLOAT16),
    "narrow": same.values(
        BFLOAT16, measures.result, NARROW, read="A loss in bfloat16"
    ),
    "slopes": same.values(CASES, under_jit("given"), SLOPES, agree=CLOSE),
    "large": same.values(
        CASES, under_jit("large"), LARGE, agree=CLOSE, read="The API"
    ),
    "none": same.values(CASES, under_jit("none"), NONE, agree=CLOSE),
    "layouts": same.placement(
        CASES, describe_shards, LAYOUTS, read="A spec without the words"
    ),
    "over_model": same.communication(
        CASES, count_sent_over_model, OVER_MODEL, read=EIGHT
    ),
    "over_data": same.communication(
        CASES, count_sent_over_data, OVER_DATA, read=CHUNKS
    ),
    "rows": same.memory(CASES, count_temporaries, ROWS, read=EIGHT),
}
# What to read when an attempt raises: words of the error, a section.
ERRORS = (("dot_general|contract|broadcast|shape", "On eight devices"),)
