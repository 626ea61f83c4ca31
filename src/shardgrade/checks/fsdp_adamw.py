"""What a right ``fsdp_adamw`` must show."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from shardbook import inputs
from shardgrade.grading import measures, same
from shardgrade.grading.spies import replaced
from shardscope.programs.report import Program


@contextmanager
def traced_losses() -> Iterator[list[str]]:
    """Note each call of a loss: under jit, there is one for each trace."""
    calls: list[str] = []

    def watched(loss: Any, model: Any, batch: Any) -> Any:
        calls.append(loss.__name__)
        return loss(model, batch)

    with ExitStack() as stack:
        for name in ("next_token_loss", "residual_error"):
            spy = partial(watched, getattr(inputs, name))
            stack.enter_context(replaced(inputs, name, spy))
        yield calls


def cases(arguments: str, batch: str) -> list[same.Case]:
    """Give a call on each mesh, and four batches for its step."""
    return same.on_meshes(
        f"fsdp_adamw({arguments})",
        then=", ".join(batch.replace("SEED", str(i)) for i in range(4)),
        given="where step(model, optimizer, batch) is called four times, "
        "with other batches",
        under=traced_losses,
        programs=True,
    )


# The activations of an MLP have two dimensions, and its rules overlap.
SMALL = cases(
    "too_large(residual_mlp, 16), residual_error, momentum(), {mesh}, "
    "(('up.kernel', P(('data', 'model'))), ('up', P('data')), "
    "('UP.*', P('data')), ('down.*', P('data')), *RULES, "
    "('up.*', P('data')))",
    "laid_out({'x': normal(32, 16, seed=SEED), 'y': normal(32, 16)}, "
    "P('data'), {mesh})",
)
LARGE = cases(
    "too_large(language_model, 64, 64, 8, 1), next_token_loss, "
    "clipped_adamw(), {mesh}, LM_RULES",
    "tokens(32, 16, 64, {mesh}, seed=SEED)",
)
# One on each mesh: making a model and compiling its step take seconds.
ALL = SMALL[-2:] + LARGE[:1]
EXAMPLE = ALL[0].call


@dataclass(frozen=True, eq=False)
class Trained:
    """What four steps made of a model and its optimizer.

    Attributes:
        layouts: Which device held which slice, before and after.
        losses: What each step returned.
        arrays: The arrays after the steps, by path.
        kept: The first arrays that were not deleted.
        programs: What each step compiled.
        traces: How often each step traced the loss.
    """

    layouts: list[dict[str, str]]
    losses: list[Any]
    arrays: dict[str, Any]
    kept: list[str]
    programs: list[list[Program]]
    traces: list[int]


@same.cache_case
def train_steps(attempt: same.Attempt, case: same.Case) -> Trained:
    """Make four steps with what a call returned."""
    seen = same.observe(attempt, case)
    *both, step = seen.result
    ((batches, _),) = same.arguments(f"step({case.then})")
    attempt.name_call(case.call, case.given)
    first, before = same.leaves_by_path(both), measures.shards_by_path(both)
    losses, traces = [], []
    with same.note_calls(attempt) as call:
        for batch in batches:
            called = len(seen.noted)
            losses.append(call(step, *both, batch))
            traces.append(len(seen.noted) - called)
            same.require_alive(both)
    return Trained(
        [before, measures.shards_by_path(both)],
        losses,
        same.leaves_by_path(both),
        same.paths_by_deletion(first, deleted=False),
        call.programs,
        traces,
    )


of_steps = partial(same.measure_made, train_steps)


def kinds(seen: same.Seen) -> str:
    """Name what was returned."""
    result = seen.result
    if not isinstance(result, tuple | list):
        return same.type_of(result)
    return ", ".join(
        "a function"
        if callable(each) and number == 2
        else same.type_of(each)
        for number, each in enumerate(result)
    )


def describe_types(seen: same.Seen) -> str:
    """Write paths, dtypes and shapes of the model and the optimizer."""
    return measures.types_by_path([*seen.result][:2])


def part_of(path: str, leaf: Any) -> str:
    """Tell what an array is: of the model, a moment or a scalar."""
    if path.startswith("0."):
        return "model"
    return "moments" if leaf.ndim else "scalars"


def placed(part: str, seen: same.Seen) -> dict[str, str]:
    """Describe the shards of a part, as they were before the steps."""
    shards = train_steps(seen.attempt, seen.case).layouts[0]
    arrays = same.leaves_by_path([*seen.result][:2])
    return {
        path: shards[path]
        for path, leaf in arrays.items()
        if part_of(path, leaf) == part
    }


def errors(seen: same.Seen) -> str:
    """Name the arrays that are not as after the solution's steps."""
    found = train_steps(seen.attempt, seen.case).arrays
    right = train_steps(
        same.solution(seen.attempt.problem), seen.case
    ).arrays
    return same.trained_apart(found, right)


def count_sent(made: Trained) -> int:
    """Count what a device sends in the first step."""
    return sum(each.sent() for each in made.programs[0])


def describe_compilations(made: Trained) -> str:
    """Say what the steps after the first traced and compiled."""
    programs = sum(map(len, made.programs[1:]))
    return f"{sum(made.traces[1:])} traces, {programs} programs"


THREE = "this is not model, optimizer, step, as in Problem"
OTHERS = (
    "the arrays are not those of the model and of "
    "nnx.Optimizer(model, tx, wrt=nnx.Param)"
)
# What is wrong with the first shardings, and the section to read.
PLACED = {
    "model": (
        "an array of the model is not sharded by the first rule that "
        "matches its whole path",
        "The API",
    ),
    "moments": (
        "a moment is not sharded like its parameter",
        "Rules that miss the moments",
    ),
    "scalars": (
        "a scalar of the optimizer is not replicated over the mesh",
        "Problem",
    ),
}
LOSS = "a step does not return the loss before its update"
UPDATE = "after four steps, the model or the optimizer has other values"
CHECKS = {
    "three": same.contract(ALL, kinds, THREE),
    "others": same.contract(ALL, describe_types, OTHERS),
    **same.numbered("placed")(
        same.placement(ALL, partial(placed, part), why, read=read)
        for part, (why, read) in PLACED.items()
    ),
    "whole": same.memory(
        ALL,
        measures.program_bytes,
        "a program that makes the model or its optimizer needs more "
        "memory than the shards of a device: give jit the shardings of "
        "its results",
        read="The API",
        agree=same.AtMost(1.1, same.HELD, more=1024),
    ),
    "loss": same.contract(
        ALL, of_steps(lambda made: [*map(same.type_of, made.losses)]), LOSS
    ),
    "loss_2": same.values(ALL, of_steps(lambda made: made.losses), LOSS),
    "update": same.values(ALL, errors, UPDATE),
    "drift": same.placement(
        ALL,
        of_steps(lambda made: made.layouts[1]),
        "the sharding of an array changes in a step",
        read="Shardings that the compiler chooses",
    ),
    "kept": same.placement(
        ALL,
        of_steps(lambda made: f"kept: {', '.join(made.kept) or 'nothing'}"),
        "old arrays of the model or the optimizer are still in memory",
    ),
    "again": same.structure(
        ALL,
        of_steps(describe_compilations),
        "a later step is traced or compiled again",
        read="Shardings that the compiler chooses",
    ),
    "sent": same.communication(
        ALL,
        of_steps(count_sent),
        "a device sends more in a step than it needs to: check how the "
        "activations are sharded",
        read="Constrain the activations",
        agree=same.AtMost(1.1, same.SENT, more=256),
    ),
}
