"""Grade many attempts in one process: only the first one starts jax up.

Readers have each attempt graded in a process of its own. That both give
the same verdict is tested in ``test_rehearsal.py``.
"""

import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace

from coverage import Coverage

from shardgrade.grading.verdict import Verdict
from shardgrade.jobs.job import Job


def grade_all(jobs: Sequence[Job]) -> list[Verdict | Job]:
    """Grade attempts, on one number of devices."""
    found = [_grade(job) for job in jobs]
    # The process is killed before it would save this at its end.
    if coverage := Coverage.current():
        coverage.save()
    return found


def _grade(job: Job) -> Verdict | Job:
    """Grade an attempt, and add what it and the grader print meanwhile."""
    stdout, stderr = os.dup(1), os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
        try:
            found = job()
            sys.stdout.flush()
        finally:
            os.dup2(stdout, 1)
            os.dup2(stderr, 2)
            os.close(stdout)
            os.close(stderr)
        file.seek(0)
        words = file.read().decode("utf-8", "replace")
    if isinstance(found, Verdict):
        return found.update(printed=found.printed + words)
    # It has passed on the usual number of devices, and others follow.
    then = found.call
    assert isinstance(then, Job)
    assert then.passed
    printed = then.passed.printed + words
    return replace(then, passed=then.passed.update(printed=printed))
