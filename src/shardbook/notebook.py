"""Grade a function from a notebook cell."""

import atexit
import base64
from collections.abc import Callable
from functools import cache
from typing import Any

import cloudpickle

from shardbook.problems import NAMES
from shardbook.verdicts import Verdict, verdicts_of
from shardbook.warm import MEGABYTES, SECONDS, Warm


@cache
def _warm() -> Warm:
    # Kept for the next call, which then takes a fraction of the time.
    warm = Warm()
    atexit.register(warm.close)
    return warm


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
        seconds: How long it may take.
        megabytes: How much memory it may ask for, in MiB.

    Returns:
        The verdict, which a notebook shows.

    Raises:
        TypeError: If it is no function that Python code defines.
        ValueError: If its name is that of no problem.
    """
    if not callable(function) or not hasattr(function, "__code__"):
        raise TypeError(
            "check() takes a function that you have defined, got "
            f"{type(function).__name__}"
        )
    name = function.__name__
    if name not in NAMES:
        raise ValueError(
            f"{name!r} is no problem; give the function one of these "
            f"names: {', '.join(NAMES)}"
        )
    data = base64.b64encode(cloudpickle.dumps(function)).decode()
    jobs = [(name, "pickle", data, "your function")]
    ((_, verdict),) = verdicts_of(
        _warm(), jobs, seconds=seconds, megabytes=megabytes, again=True
    )
    return verdict
