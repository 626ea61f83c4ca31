"""Grade many attempts in one process: only the first one starts jax up.

Readers have each attempt graded in a process of its own. That both give
the same verdict is tested in ``test_rehearsal.py``.
"""

from collections.abc import Sequence

from coverage import Coverage

from shardbook.grading.job import Job
from shardbook.grading.verdict import Verdict


def grade_all(jobs: Sequence[Job]) -> list[Verdict | Job]:
    """Grade attempts, on one number of devices."""
    found = [job() for job in jobs]
    # The process is killed before it would save this at its end.
    if coverage := Coverage.current():
        coverage.save()
    return found
