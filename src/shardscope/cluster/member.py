"""One of several processes: join the others, and run the reader's code."""

import contextlib
import faulthandler
import os
import pickle
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, TypeAlias

import psutil

from shardscope.cluster.fates import (
    Exited,
    Fate,
    Raised,
    Returned,
    has_failed,
)
from shardscope.lines import lines_of_reader

# The signal at which a member writes down where its threads are. Windows
# has none: there, processes() says why it can't work.
WHERE = getattr(signal, "SIGUSR2", signal.SIGTERM)
# An entry for each call of jax.distributed.initialize by the reader's code.
CALLS: list[None] = []


@dataclass(frozen=True)
class Seat:
    """Which of the processes this is, and where it meets the others.

    Attributes:
        process: Its index, from 0.
        processes: How many there are.
        devices: How many CPU devices each has.
        port: The port on the loopback where they meet.
        trace: The file that a member writes down where it is.
    """

    process: int
    processes: int
    devices: int
    port: int
    trace: str


# What a member does, given a function that sends words to whoever watches.
Work: TypeAlias = Callable[[Callable[[Any], None]], Returned]


def serve(link: Connection, seat: Seat, work: Work) -> None:
    """Be one of several processes, until the work is done or we are ended.

    Args:
        link: Where to send what becomes of this process.
        seat: Which of the processes it is.
        work: What to do once all have joined.
    """
    trace = open(seat.trace, "w")  # noqa: SIM115  # For the signal.
    faulthandler.register(WHERE, file=trace, all_threads=True)
    threading.Thread(target=_end_with, args=[link], daemon=True).start()
    link.send(threading.main_thread().ident)
    fate = _fate(link, seat, work)
    with contextlib.suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    link.send(fate)
    while has_failed(fate):
        # To end now would make the others fail as well, and theirs could
        # be taken for the cause. We are ended with them.
        signal.pause()
    import jax

    # It waits for the others, who may need this process still.
    jax.distributed.shutdown()


def _fate(link: Connection, seat: Seat, work: Work) -> Fate:
    try:
        _join(seat)
        link.send("joined")
        return work(link.send)
    except SystemExit as error:
        if error.code in (None, 0):
            return Returned(pickle.dumps(None), lines=_lines(error))
        return Exited(_lines(error), error.code)
    except BaseException as error:
        words = "".join(traceback.format_exception_only(error)).strip()
        trace = "".join(traceback.format_exception(error))
        return Raised(_lines(error), words, trace)


def _join(seat: Seat) -> None:
    """Set up the devices, and wait until all processes have joined."""
    import jax

    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", seat.devices)
    address = f"127.0.0.1:{seat.port}"
    if seat.process == 0:
        _require_free(seat.port)
    join = partial(
        jax.distributed.initialize,
        address,
        seat.processes,
        seat.process,
        # A day: whoever watches us sees at once when a process is missing
        # or dead, and a slow machine is no reason to give up.
        initialization_timeout=86400,
        heartbeat_timeout_seconds=86400,
        shutdown_timeout_seconds=86400,
        # Elsewhere it would listen to the network.
        coordinator_bind_address=address,
    )
    with _without_proxies():
        join()
    # What runs on a cluster begins with this call, which may be made once.
    jax.distributed.initialize = partial(_join_again, join)


def _require_free(port: int) -> None:
    """Raise an error where another program listens at a port.

    jax would die of SIGSEGV.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        probe.bind(("127.0.0.1", port))


@contextlib.contextmanager
def _without_proxies() -> Iterator[None]:
    """Have gRPC reach the loopback without a proxy for the internet."""
    proxies = {
        name: os.environ.pop(name)
        for name in [*os.environ]
        if "_proxy" in name.lower()
    }
    try:
        yield
    finally:
        os.environ.update(proxies)


def _join_again(join: Callable[[], None], *_: Any, **__: Any) -> None:
    """Do nothing, but raise the error that the call would on a cluster."""
    CALLS.append(None)
    try:
        with _without_proxies():
            join()
    except RuntimeError as error:
        # Before it says this of our own call, it looks for devices.
        if len(CALLS) > 1 or "only be called once" not in str(error):
            raise


def _lines(error: BaseException) -> tuple[str, ...]:
    """Name the reader's lines that an error went through."""
    return lines_of_reader(
        (frame.filename, frame.lineno or 0)
        for frame in reversed(traceback.extract_tb(error.__traceback__))
    )


def _end_with(link: Connection) -> None:
    """End this process and its children when nobody watches any more."""
    with contextlib.suppress(EOFError, OSError):
        link.recv()
    with contextlib.suppress(psutil.Error):
        for each in psutil.Process().children(recursive=True):
            each.kill()
    os.killpg(os.getpid(), signal.SIGKILL)
