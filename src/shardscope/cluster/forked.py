"""Start a member as a fork of this process, which has imported jax."""

import os
import sys
from collections.abc import Callable
from multiprocessing.connection import Pipe
from typing import Any

import psutil

from shardscope.cluster.group import Member
from shardscope.cluster.member import Seat, Work, serve
from shardscope.cluster.output import Lines


def fork(seat: Seat, work: Work, told: Callable[[Any], None]) -> Member:
    """Fork a member. jax must not have started its devices here.

    Args:
        seat: Which of the processes it is.
        work: What it does once all have joined.
        told: What to call with the words that it sends.

    Returns:
        The member, as this process sees it.
    """
    link, theirs = Pipe()
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        # An error in the code that we came from is not this process's.
        try:
            os.setsid()
            link.close()
            os.dup2(writing, 1)
            os.dup2(writing, 2)
            serve(theirs, seat, work)
        finally:
            os._exit(0)
    theirs.close()
    os.close(writing)
    before = f"[{seat.process}] "
    outputs = [Lines(reading, before, sys.stdout)]
    return Member(psutil.Process(pid), link, outputs, seat.trace, told)
