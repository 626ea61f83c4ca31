"""Attempts that are graded in several processes, whatever they do there."""

import re
from pathlib import Path

import psutil
import pytest
from sizes import all_but

from shardgrade.jobs.job import Job, verdicts_of
from shardgrade.jobs.sandbox import Limits, Sandbox
from shardgrade.reader import attempt_files

NAME = "one_metric"
FIRST = "    return float(_mean(values, mesh))\n"
# Lines before the solution's own, and what must be said: the status, and
# words of the verdict.
HOSTILE = {
    "raises": (
        "if jax.process_index() == 1:\n    raise KeyError('rows')",
        ("crashed", r"KeyError: 'rows'.*\(line 37\).*in process 1 of 2"),
    ),
    "dies": (
        "if jax.process_index() == 0:\n    __import__('os')._exit(3)",
        (
            "crashed",
            "process 0 ended without a Python error: exit status 3",
        ),
    ),
    "waits": (
        "if jax.process_index() == 0:\n    float(_mean(values, mesh))",
        (
            "crashed",
            r"wait for one another.*process 0 waited at attempt\.py:38"
            ".*process 1 has made the call",
        ),
    ),
    "loops": (
        "while jax.process_index() == 1:\n    pass",
        ("crashed", r"used more than 25 s.*process 1 was at .*:3[67]"),
    ),
    "lost_before_the_cause": (
        "if jax.process_index() == 0:\n"
        "    raise RuntimeError('Gloo: DEADLINE_EXCEEDED')\n"
        "__import__('time').sleep(3)\n"
        "raise KeyError('rows')",
        ("crashed", r"KeyError: 'rows'.*in process 1 of 2"),
    ),
    "another_number_in_one": (
        "if jax.process_index() == 1:\n    return 0.0",
        ("wrong|crashed", "process 1"),
    ),
}


@pytest.mark.parametrize(
    "accident", all_but(["raises"], HOSTILE, "each takes many seconds")
)
def test_the_process_is_named(
    accident: str, sandbox: Sandbox, tmp_path: Path
) -> None:
    """What one process does is a verdict on it, and nothing is left."""
    lines, (status, words) = HOSTILE[accident]
    inside = "".join(f"    {line}\n" for line in lines.splitlines())
    solution = attempt_files.solution(NAME)
    assert FIRST in solution
    path = tmp_path / "attempt.py"
    path.write_text(solution.replace(FIRST, inside + FIRST))
    before = set(psutil.Process().children(recursive=True))

    job = Job(NAME, path.name, path, Limits(seconds=25))
    (verdict,) = verdicts_of(sandbox, [job])

    said = f"{verdict.why}\n{verdict.given}"
    assert re.fullmatch(status, verdict.status), verdict
    assert re.search(words, said, re.DOTALL), said
    assert "one_metric(" in verdict.call
    if "used more" in words:
        assert not verdict.read
    # The supervisor may be about to end.
    left = {*psutil.Process().children(recursive=True)} - before
    psutil.wait_procs(left, 10)
    assert {*psutil.Process().children(recursive=True)} <= before
