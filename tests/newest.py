"""Say in words what the installed jax and flax have broken.

"nox -s newest" runs this on those of today. The tests are those of "nox -s
tests" that a release of jax or flax is likely to break; of the attempts,
those at ten problems.
"""

import re
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

TEN = (
    *("auto_mesh", "place_batch", "init_sharded", "restore_onto"),
    *("state_zero_kernel", "data_parallel_step", "tree_mode_shard_map"),
    *("clip_local", "explicit_mlp", "ring_attention"),
)
OTHERS = (
    "grading/test_jax_internals.py",
    "shardscope/test_propagation.py",
    "shardscope/test_why.py",
    "shardscope/test_program_findings.py",
    "shardscope/test_layout_findings.py",
    "site/test_error_pages.py",
    "site/test_errors.py",
)
TESTS = Path(__file__).parent
ATTEMPTS = "grading/test_attempts.py"
# What says enough: a private part of jax or a pass that is gone, and the
# cells of a page that fail.
CAUSE = re.compile(
    r"jax \S+ has no \S+|Shardy has no .*? registered pass"
    r"|docs/\S+\.md:\d+: .*?(?= \d+ cells of )"
)
# How many characters of a reason are shown, which are the first ones.
SHOWN = 400


class Broken(dict[str, list[str]]):
    """The reasons of failures, each with the tests that gave it."""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note why a test failed."""
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            words = crash.message if crash else str(report.longrepr)
            found = CAUSE.search(" ".join(words.split()))
            lines = [line for line in words.splitlines() if line.strip()]
            reason = found[0] if found else "\n    ".join(lines)
            reason = reason[:SHOWN]
            self.setdefault(reason, []).append(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note why a file can't be imported: its last line says it."""
        if report.failed:
            reason = str(report.longrepr).strip().splitlines()[-1]
            self.setdefault(reason, []).append(report.nodeid)


def main() -> int:
    """Run the tests, and print each reason once; return the status."""
    broken = Broken()
    ten = f"gets_its_verdict and ({' or '.join(TEN)})"
    status = pytest.main(
        [
            *(str(TESTS / name) for name in (*OTHERS, ATTEMPTS)),
            *("-q", "-n", "auto", "--dist", "loadscope", "--tb", "no"),
            *("--no-showlocals", "-p", "no:cacheprovider", "-r", "N"),
            *("-m", "today or not exhaustive"),
            *("-k", f"not test_attempts or {ten}"),
            *sys.argv[1:],
        ],
        plugins=[broken],
    )
    versions = [f"{name} {version(name)}" for name in ("jax", "flax")]
    print(f"\nOn {', '.join(versions)}:")
    for reason, tests in broken.items():
        more = f" (and {len(tests) - 1} more)" if tests[1:] else ""
        print(f"- {tests[0]}{more}\n    {reason}")
    if broken:
        print(f"{len(broken)} things are broken.")
    else:
        # Without a test, nothing is known to hold.
        print(f"pytest ended with {status!r}." if status else "All holds.")
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
