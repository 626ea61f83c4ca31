"""Grade many attempts in one process: only the first one starts jax up.

Readers have each attempt graded in a process of its own. That both give
the same verdict is tested in ``test_rehearsal.py``.
"""

from collections.abc import Sequence
from typing import Any

from coverage import Coverage

from shardbook.grading import run


def grade_all(calls: Sequence[Sequence[Any]]) -> list[dict[str, Any]]:
    """Make each of these calls of ``grade``."""
    verdicts = [run.grade(*call) for call in calls]
    # The process is killed before it would save this at its end.
    if coverage := Coverage.current():
        coverage.save()
    return verdicts
