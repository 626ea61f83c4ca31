"""What a right ``repair_step`` must show: four budgets, and the losses."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np

from shardbook.inputs import counting
from shardgrade.grading import measures, same
from shardscope.programs.report import Program

CALLS = 4
ROOM = 1.05
PAR = 0.85
CASES = same.on_meshes(
    "repair_step({mesh})",
    given=(
        "where step(model, optimizer, place(counting(32, 17, 1024, i))) "
        f"is called {CALLS} times, with 0, 1, 2 and 3 for i"
    ),
)[:2]
EXAMPLE = CASES[0].call


@dataclass(frozen=True, eq=False)
class Run:
    """What came of a few steps.

    Attributes:
        losses: What the step returned.
        batch: Which device holds which rows of the first batch.
        arrays: Those of the model and the optimizer after the calls.
        programs: The programs that were compiled, call by call.
        copied: What jax refused in one more call, in which no array may
            be copied from one device to another outside of a program.
    """

    losses: list[Any]
    batch: str
    arrays: dict[str, Any]
    programs: list[list[Program]]
    copied: str

    @property
    def memory(self) -> int:
        """The most bytes that a program needs on a device."""
        needs = [
            each.memory.total for call in self.programs for each in call
        ]
        return max(needs, default=0)

    @property
    def sent(self) -> int:
        """The bytes that a device sends in what the first call compiles."""
        return sum(each.sent() for each in self.programs[0])

    @property
    def compiled_later(self) -> int:
        """The number of programs that later calls compiled."""
        return sum(map(len, self.programs[1:]))


@same.cache_case
def run(attempt: same.Attempt, case: same.Case) -> Run:
    """Train a few steps, and one more where copies are refused."""
    model, optimizer, place, step = same.observe(attempt, case).result
    attempt.name_call(case.call, case.given)
    layouts: list[str] = []

    def train(seed: int) -> Any:
        batch = place(counting(32, 17, 1024, seed))
        if not layouts:
            layouts.append(measures.describe_shards(batch))
        return step(model, optimizer, batch)

    with same.note_calls(attempt) as call:
        losses = [call(train, seed) for seed in range(CALLS)]
        # In here, for outside all of it would be compiled again.
        arrays = jax.device_get(same.leaves_by_path([model, optimizer]))
        with measures.note_copies() as refused, attempt.running():
            batch = jax.block_until_ready(
                place(counting(32, 17, 1024, CALLS))
            )
        copied = "place copies" if refused else "nothing is copied"
        if not refused:
            with measures.note_copies() as refused, attempt.running():
                jax.block_until_ready(step(model, optimizer, batch))
            copied = "step copies" if refused else copied
    return Run(losses, layouts[0], arrays, call.programs, copied)


def of(seen: same.Seen) -> Run:
    """Give the run of a call."""
    return run(seen.attempt, seen.case)


def describe_parts(seen: same.Seen) -> str:
    """Describe what was returned: four things, two of them with arrays."""
    found = seen.result
    if not isinstance(found, tuple) or len(found) != 4:
        return f"{type(found).__name__}: {found!r:.60}"
    lines = [
        f"{name} {path} {same.type_of(leaf)}"
        for name, node in zip(
            ("model", "optimizer"), found[:2], strict=True
        )
        for path, leaf in sorted(same.leaves_by_path(node).items())
    ]
    both = all(map(callable, found[2:]))
    return "\n".join([*lines, f"place and step callable: {both}"])


def losses(seen: same.Seen) -> dict[str, Any]:
    """Give the losses, with the calls that they are of."""
    return {
        f"call {n}": np.asarray(each)
        for n, each in enumerate(of(seen).losses, 1)
    }


def describe_copies(seen: same.Seen) -> str:
    """Tell what copies between devices outside of programs."""
    return f"{of(seen).copied} from device to device outside of programs"


def changed(seen: same.Seen) -> str:
    """Name the arrays that are not as after the solution's steps."""
    right = run(same.solution(seen.attempt.problem), seen.case).arrays
    return same.trained_apart(of(seen).arrays, right)


def quantities(attempt: same.Attempt) -> dict[str, str]:
    """Give what the verdict on a right attempt compares."""
    same.observe(attempt, CASES[0])
    made = run(attempt, CASES[0])
    return {
        "collectives": measures.count_collectives(made.programs[0]),
        "bytes sent": f"{made.sent:,}",
        same.HELD: f"{made.memory:,}",
    }


budget = partial(same.AtMost, budget=True)


def compare_with_par(attempt: same.Attempt, case: same.Case) -> None:
    """Say how much memory a step needs on the first mesh, if above par.

    The solution is above par too. Who needs just as much is not told.
    """
    yours, ours = (
        run(each, case).memory
        for each in (attempt, same.solution(attempt.problem))
    )
    if PAR * ours < yours != ours:
        raise same.Wrong(
            f"in {case.call}, your step needs {yours / ours:.1%} of "
            f"the solution's memory: par is {PAR:.0%}, within the same "
            "budget of bytes, for a step that computes more again in its "
            "backward pass than the solution does",
            read="Solution",
        )


SPECS = "a parameter is not sharded by SPECS"
OTHER = "these are not the arrays that the model and the optimizer had"
LOSSES = "the losses have changed: the repaired step must train as before"
ARRAYS = (
    "after the steps, the model or the optimizer has other values than "
    "the starter's: what is computed must stay as it is"
)
ROWS = "place does not return the batch sharded by rows, as P('data')"
COPIES = "over the budget of copies, which is zero"
CHECKS = {
    "other": same.contract(CASES, describe_parts, OTHER),
    "specs": same.placement(
        CASES, lambda seen: measures.shards_by_path(seen.result[0]), SPECS
    ),
    "losses": same.values(CASES, losses, LOSSES),
    "arrays": same.values(CASES, changed, ARRAYS),
    "rows": same.placement(
        CASES, lambda seen: of(seen).batch, ROWS, read="Problem"
    ),
    "bytes": same.communication(
        CASES,
        lambda seen: of(seen).sent,
        "over the budget of bytes that a device sends in a step",
        read="Where to look",
        agree=budget(ROOM, f"{same.SENT} in a step"),
    ),
    "memory": same.memory(
        CASES,
        lambda seen: of(seen).memory,
        "over the budget of memory",
        read="Where to look",
        agree=budget(ROOM, same.HELD),
    ),
    "copies": same.communication(
        CASES, describe_copies, COPIES, read="Programs that come back"
    ),
    "compiled": same.structure(
        CASES,
        lambda seen: of(seen).compiled_later,
        "over the budget of compilations: later calls need none",
        read="Programs that come back",
        agree=budget(1, f"programs compiled in calls 2 to {CALLS}"),
    ),
    "compare_with_par": same.Check(
        "remark", CASES[:1], compare_with_par, "Solution"
    ),
}
# What to read when an attempt raises: words of the error, a section.
ERRORS = (
    ("spmd_axis_name", "Bytes that grow with the parts"),
    ("been deleted", "Memory that does not divide"),
)
