"""What there is to grade: an attempt, and within what limits."""

from dataclasses import dataclass
from pathlib import Path

from shardgrade.grading.verdict import Verdict
from shardgrade.jobs.limits import USUAL, Limits


@dataclass(frozen=True)
class Task:
    """An attempt to grade.

    Attributes:
        problem: The name of the problem.
        source: What to call the attempt in its verdict.
        attempt: The file that the attempt is in, or a pickled function.
        limits: What it may use.
        devices: How many devices to grade it on, 2 or more.
        passed: The verdict on the same attempt on the usual devices, if it
            is graded on others now.
    """

    problem: str
    source: str
    attempt: Path | bytes
    limits: Limits = USUAL
    devices: int = 8
    passed: Verdict | None = None
