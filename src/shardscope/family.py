"""What a family of processes uses of the CPU, and how it is ended."""

import contextlib
import os
import signal
import time
from collections.abc import Iterable

import psutil

# Seconds that a killed process may take to end: on a busy machine, it does
# so later, and one that waits for a disk or a device may never.
GRACE = 5
# Which part of the time is hardly any use of the CPU. A busy machine leaves
# a process more than that.
HARDLY = 0.02


def used(family: Iterable[psutil.Process]) -> float:
    """Give the seconds of CPU time of processes.

    Each counts with the children that it waited for.
    """
    seconds = 0.0
    for each in family:
        with contextlib.suppress(psutil.Error):
            seconds += sum(each.cpu_times()[:4])
    return seconds


def kill_group(leader: int) -> None:
    """End the group of a process that nobody has waited for yet."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def kill(family: Iterable[psutil.Process]) -> None:
    """End processes."""
    for each in family:
        with contextlib.suppress(psutil.Error):
            each.kill()


def wait_for_killed(family: Iterable[psutil.Process]) -> None:
    """Wait until processes that were killed have ended."""
    until = time.monotonic() + GRACE
    for each in family:
        # A zombie has ended; perhaps nobody ever asks how.
        with contextlib.suppress(psutil.Error):
            while (
                each.is_running()
                and each.status() != psutil.STATUS_ZOMBIE
                and time.monotonic() < until
            ):
                time.sleep(0.01)


class Idleness:
    """Tells whether a family has hardly used the CPU for long.

    Args:
        seconds: How long is long.
        used: The seconds of CPU time that were used before.
    """

    def __init__(self, seconds: float, used: float = 0) -> None:
        self._seconds = seconds
        self._busy = used
        self._since = time.monotonic()

    def is_long(self, used: float) -> bool:
        """Take in what has been used; tell whether they idle for long."""
        now = time.monotonic()
        # It falls where a process ends for which nobody waits.
        if abs(used - self._busy) > HARDLY * self._seconds:
            self._busy, self._since = used, now
        return now - self._since > self._seconds
