"""Grade many attempts in one process: only the first one starts jax up.

Readers have each attempt graded in a process of its own. That both give
the same verdict is tested in ``test_rehearsal.py``.
"""

import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from coverage import Coverage

from shardgrade.grading.verdict import Verdict
from shardgrade.jobs.job import Job
from shardgrade.jobs.sandbox import Limits, Sandbox


def grade_all(jobs: Sequence[Job]) -> list[Verdict | Job]:
    """Grade attempts, on one number of devices."""
    found = [_grade(job) for job in jobs]
    # The process is killed before it would save this at its end.
    if coverage := Coverage.current():
        coverage.save()
    return found


def grade_jobs(
    sandbox: Sandbox, jobs: Sequence[Job], limits: Limits
) -> list[Verdict]:
    """Grade attempts in a sandbox, and on other devices where they pass."""
    verdicts: list[Verdict] = []
    while jobs:
        outcome = sandbox.call(partial(grade_all, jobs), limits)
        assert outcome.value, outcome
        verdicts += [v for v in outcome.value if isinstance(v, Verdict)]
        jobs = [each for each in outcome.value if isinstance(each, Job)]
    return verdicts


def heading_of(verdict: Verdict) -> str:
    """Write a verdict as the heading of an attempt has it."""
    name = verdict.name or verdict.check
    return f"{verdict.status}: {name}".removesuffix(": ")


def words_of(verdict: Verdict) -> str:
    """Give the words in which ``says`` of an attempt must be."""
    remarks = [words for words, _ in verdict.remarks]
    said = [verdict.why, verdict.got, verdict.expected, *remarks]
    return "\n".join(said)


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
