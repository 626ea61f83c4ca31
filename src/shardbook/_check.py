"""Grade a function from a notebook cell."""

import atexit
import base64
from collections.abc import Callable
from functools import cache
from typing import Any

import cloudpickle  # type: ignore[import-untyped]  # It has no types.

from shardbook.grading.sandbox import MEGABYTES, SECONDS, Sandbox
from shardbook.grading.verdict import Verdict, verdicts_of
from shardbook.problems import NAMES


@cache
def _sandbox() -> Sandbox:
    # Kept for the next call, which then takes a fraction of the time.
    sandbox = Sandbox()
    atexit.register(sandbox.close)
    return sandbox


def check(
    function: Callable[..., Any],
    *,
    seconds: float = SECONDS,
    megabytes: int = MEGABYTES,
) -> Verdict:
    """Grade a function that you have defined, in a process of its own.

    Args:
        function: Your attempt. It has the name of the problem, such as
            ``state_zero_kernel``.
        seconds: How many seconds it may take.
        megabytes: How many MiB of memory it may ask for.

    Returns:
        The verdict. A notebook shows it.

    Raises:
        TypeError: If it is not a function that Python code defines.
        ValueError: If no problem has its name.

    Example:
        In a cell below your attempt ``def state_zero_kernel(...)``:
        ``shardbook.check(state_zero_kernel)``.
    """
    if not callable(function) or not hasattr(function, "__code__"):
        raise TypeError(
            "check() takes a function that you have defined, but got "
            f"an object of type {type(function).__name__}"
        )
    name = function.__name__
    if name not in NAMES:
        raise ValueError(
            f"Unknown problem {name!r}. Give your function one of these "
            f"names: {', '.join(NAMES)}"
        )
    data = base64.b64encode(cloudpickle.dumps(function)).decode()
    jobs = [(name, "pickle", data, "your function")]
    (verdict,) = verdicts_of(
        _sandbox(), jobs, seconds=seconds, megabytes=megabytes, again=True
    )
    return verdict
