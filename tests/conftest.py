"""Eight CPU devices, before anything asks JAX for one."""

import os
import signal
from collections.abc import Iterator

import jax
import pytest
from sizes import changed_problems, include

from shardgrade.jobs.job import open_sandbox
from shardgrade.jobs.sandbox import Sandbox


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the problems be tested, and attempts graded, on fewer devices."""
    parser.addoption("--devices", type=int, default=8, metavar="N")
    parser.addoption(
        "--artifact",
        metavar="FILE",
        help="an archive or a wheel to test, in an empty environment",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Set up the devices, and let the tests interrupt what they start."""
    # A shell that starts the tests behind "&" has them ignore Ctrl-C, and
    # so all that they start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Tables are as wide as without a terminal, whoever runs the tests.
    os.environ.pop("COLUMNS", None)
    # Without LLVM's passes XLA compiles the same programs in half the time;
    # grading/test_unoptimized.py compares them.
    os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", config.getoption("--devices"))


def pytest_report_header() -> str:
    """Name the problems that are tested whole."""
    changed = ", ".join(changed_problems()) or "none"
    return f"problems with changed files, tested whole: {changed}"


@pytest.hookimpl(tryfirst=True)  # Before -m leaves out what is marked.
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out nothing of a problem that has changed."""
    for item in items:
        # An attempt's test is named "[NAME::...]", a file "test_NAME.py".
        attempt = item.name.rpartition("[")[2].partition("::")[0]
        names = {attempt, item.path.stem.removeprefix("test_")}
        if not names.isdisjoint(changed_problems()):
            include(item)


@pytest.fixture(scope="session")
def sandbox() -> Iterator[Sandbox]:
    """Open a sandbox for all tests that leave its server alone."""
    with open_sandbox() as sandbox:
        yield sandbox
