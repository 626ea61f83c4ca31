"""Say which attempts prove what another one proves, and what none does.

    python tests/grading/redundancy.py [--devices N] NAME ...

Every check runs on every wrong attempt, remarks on the right ones too. An
attempt proves that a check finds it, and what the verdict says of it: the
sentence of the first check that refuses it, without its numbers.
"""

import argparse
import contextlib
import importlib
import os
import re
import tempfile
import warnings
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import jax
from edits import Attempt, attempts

from shardbook.problems import NAMES
from shardgrade.grading.attempt import load_file
from shardgrade.grading.same import Check


class Refusal(NamedTuple):
    """A check that refuses an attempt, and what it says."""

    check: str
    says: str


def refusals(
    attempt: Attempt, checks: dict[str, Check]
) -> Iterator[Refusal]:
    """Run all checks on an attempt; give those that refuse it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"{attempt.problem}.py")
        path.write_text(attempt.text)
        try:
            loaded = load_file(attempt.problem, str(path))
            loaded.find()
        except Exception as error:
            yield Refusal("callable", said(error))
            return
        for name, check in checks.items():
            try:
                for case in check.cases:
                    check.run(loaded, case)
            except Exception as error:
                yield Refusal(name, said(error))


def said(error: Exception) -> str:
    """Give the sentence of an error, or its kind if it is no verdict."""
    words = getattr(error, "why", "") or str(error).partition(":")[0]
    return re.sub(r"\d+", "N", words.partition("\n")[0])


def report(problem: str) -> tuple[int, int]:
    """Print what attempts at a problem prove; count them and the needed."""
    rules = importlib.import_module(f"shardgrade.checks.{problem}")
    first: dict[Refusal, list[str]] = defaultdict(list)
    every: dict[str, set[str]] = defaultdict(set)
    for attempt in attempts(problem):
        # What attempts print would stand between the lines of the report.
        with (
            open(os.devnull, "w") as nowhere,
            contextlib.redirect_stdout(nowhere),
        ):
            found = [*refusals(attempt, rules.CHECKS)]
        for each in found:
            every[each.check].add(attempt.name)
        if found:
            first[found[0]].append(attempt.name)
    print(f"\n{problem}")
    for refusal, names in first.items():
        if len(names) > 1:
            print(f"  the same, {refusal.check}: {', '.join(names)}")
    for check in rules.CHECKS:
        if not every[check]:
            print(f"  no attempt is refused by {check}")
        elif all(each.check != check for each in first):
            print(f"  {check} is the first for none")
    return sum(map(len, first.values())), len(first)


def main() -> None:
    """Read the arguments, and report on each problem."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--devices", type=int, default=8)
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args()
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", options.devices)
    warnings.simplefilter("ignore")
    total = needed = 0
    for name in options.names or NAMES:
        count, enough = report(name)
        total, needed = total + count, needed + enough
    print(f"\n{total} refusals, of which {needed} differ")


if __name__ == "__main__":
    main()
