"""Gradients of a loss, and what devices exchange for them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax

from shardgrade.grading.agreement import SENT, Limited
from shardgrade.grading.attempt import Attempt
from shardgrade.grading.cases import Case
from shardgrade.grading.note_programs import compile_and_run
from shardscope.programs.report import Program


@dataclass(frozen=True, eq=False)
class Slopes:
    """The gradients of a loss, and how they were computed.

    Attributes:
        gradients: Those of each argument, by name.
        program: What was compiled.
        over_model: Bytes that a device may send, but over "data" alone.
        over_data: Bytes that it may send over "data" alone.
    """

    gradients: dict[str, Any]
    program: Program
    over_model: int
    over_data: int


def take_gradients(
    attempt: Attempt,
    case: Case,
    given: str,
    call: Callable[..., Any],
    **arrays: Any,
) -> tuple[dict[str, Any], Program]:
    """Take the gradients of the sum of y squared, under jit.

    Args:
        attempt: What ``call`` calls.
        case: The call that a verdict names.
        given: What a verdict says of it.
        call: Returns y for the arrays, by their names.
        **arrays: What to take the gradients of.

    Returns:
        The gradients by the same names, and what was compiled.
    """
    attempt.name_call(case.call, given)

    def loss(arrays: dict[str, Any]) -> Any:
        return (call(**arrays) ** 2).sum()

    return compile_and_run(attempt, jax.grad(loss), arrays)


def sent_over_model(made: Slopes) -> Limited:
    """Count what is sent, but over "data" alone."""
    count = made.program.sent() - made.program.sent("data")
    return Limited(count, made.over_model, SENT)


def sent_over_data(made: Slopes) -> Limited:
    """Count what is sent over "data"."""
    count = made.program.sent("data")
    return Limited(count, made.over_data, SENT)
