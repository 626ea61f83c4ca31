"""Grade a function from a notebook cell."""

import atexit
import functools
import inspect
import io
from collections import ChainMap
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any, ClassVar

import cloudpickle  # type: ignore[import-untyped]  # It has no types.

from shardbook.problems import NAMES
from shardgrade.grading.verdict import Verdict
from shardgrade.jobs.job import Job, open_sandbox, start, verdict_of
from shardgrade.jobs.limits import MEGABYTES, SECONDS, Limits
from shardgrade.jobs.sandbox import Sandbox

_LRU_CACHE = type(functools.lru_cache(len))


@functools.cache
def _sandbox() -> Sandbox:
    # Kept for the next call, which then takes a fraction of the time.
    sandbox = open_sandbox()
    atexit.register(sandbox.close)
    return sandbox


def _cached(parameters: dict[str, Any], function: Any) -> Any:
    return functools.lru_cache(**parameters)(function)


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Pickles what notebooks define, caches too: without what is cached."""

    dispatch_table: ClassVar[Any] = ChainMap(
        {
            _LRU_CACHE: lambda function: (
                _cached,
                (function.cache_parameters(), function.__wrapped__),
            ),
            functools.cached_property: lambda each: (
                functools.cached_property,
                (each.func,),
                {"attrname": each.attrname},
            ),
        },
        cloudpickle.Pickler.dispatch_table,
    )


def check(
    function: Callable[..., Any],
    *,
    seconds: float = SECONDS,
    megabytes: int = MEGABYTES,
) -> Verdict:
    """Grade a function that you have defined, in a separate process.

    The call writes no file, so ``shardbook list`` does not count the
    problem as solved.

    Args:
        function: Your attempt, with the name of the problem, such as
            ``state_zero_kernel``.
        seconds: How many seconds of CPU time the attempt may use, in all
            its threads and child processes. A call that hardly uses the
            CPU is ended after as many seconds of wall-clock time.
        megabytes: How many MiB of memory the attempt may ask for.

    Returns:
        The verdict. A notebook shows it.

    Raises:
        TypeError: If you pass anything but a function defined in Python
            code, or if what the function uses can't be pickled.
        ValueError: If no problem has the function's name, or if
            ``seconds`` is not more than 0 and at most a day.
        ImportError: If jax or flax is older than grading requires.
        OSError: If the grading process has ended, or if this system can't
            fork. The next call starts a new process.

    Example:
        In a cell below your attempt ``def state_zero_kernel(...)``:
        ``shardgrade.check(state_zero_kernel)``.
    """
    # A decorator such as jax.jit hides the function that it takes.
    plain = inspect.unwrap(function)
    if not isinstance(plain, FunctionType | MethodType):
        raise TypeError(
            "check() takes a function that you have defined, but got "
            f"an object of type {type(function).__name__}"
        )
    name = getattr(function, "__name__", plain.__name__)
    if name not in NAMES:
        raise ValueError(
            f"Unknown problem {name!r}. Give your function one of these "
            f"names: {', '.join(NAMES)}"
        )
    limits = Limits(seconds, megabytes)
    pickled = io.BytesIO()
    try:
        _Pickler(pickled).dump((function, plain))
    # What can go wrong depends on what the function uses.
    except Exception as error:
        raise TypeError(
            f"{name} can't be sent to the process that grades: {error}. "
            "Write it to a file, and use: shardbook check FILE"
        ) from error
    job = Job(name, "your function", pickled.getvalue(), limits)
    sandbox = _sandbox()
    try:
        with start(sandbox, job) as running:
            return verdict_of(job, running.outcome())
    except OSError:
        sandbox.close()
        _sandbox.cache_clear()
        raise
