"""Time commands in turns, so that a busy moment strikes them all."""

import statistics
import subprocess
import sys
import time
from collections.abc import Callable


def seconds(
    *command: str,
    environment: dict[str, str] | None = None,
) -> float:
    """Run a command in silence, and time it; it must succeed."""
    start = time.perf_counter()
    result = subprocess.run(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if result.returncode:
        sys.exit(result.stdout)
    return time.perf_counter() - start


def medians(
    rounds: int,
    commands: dict[str, Callable[[], float]],
    *,
    warm_up: bool = False,
) -> dict[str, float]:
    """Give the median of each, of that many rounds.

    A round to warm up, as for the file system, is not counted.
    """
    times: dict[str, list[float]] = {name: [] for name in commands}
    for turn in range(-warm_up, rounds):
        for name, command in commands.items():
            taken = command()
            if turn >= 0:
                times[name].append(taken)
    return {name: statistics.median(each) for name, each in times.items()}
