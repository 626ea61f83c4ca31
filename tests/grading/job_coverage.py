"""Save what a job has covered, before its supervisor ends it.

A sandbox that imports this counts for the coverage of the tests, if there
is one.
"""

from typing import Any

from coverage import Coverage

from shardbook.grading import run

grade = run.grade


def grade_and_save(*arguments: Any) -> dict[str, Any]:
    """Grade an attempt, and save the coverage so far."""
    verdict = grade(*arguments)
    if coverage := Coverage.current():
        coverage.save()
    return verdict


run.grade = grade_and_save
