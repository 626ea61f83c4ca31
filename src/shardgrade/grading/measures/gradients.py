"""Gradients of a loss, and what devices exchange for them."""

from dataclasses import dataclass
from typing import Any

from shardgrade.grading.agreement import SENT, Limited
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


def sent_over_model(made: Slopes) -> Limited:
    """Count what is sent, but over "data" alone."""
    count = made.program.sent() - made.program.sent("data")
    return Limited(count, made.over_model, SENT)


def sent_over_data(made: Slopes) -> Limited:
    """Count what is sent over "data"."""
    count = made.program.sent("data")
    return Limited(count, made.over_data, SENT)
