"""Call functions in processes of their own, whatever they do there."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

from shardbook.grading.jobs.environment import (
    grading_environment,
    require_versions,
)

# How many seconds of CPU time and how many MiB of memory a job may use,
# unless the caller says otherwise.
SECONDS = 60.0
MEGABYTES = 8192
# The most seconds that a caller can allow.
DAY = 86_400
# The signals that tell a job that it must end, and what each says of it.
LIMITS = {
    signal.SIGXCPU: "used more than {:g} s of CPU time",
    signal.SIGALRM: "hardly used the CPU for {:g} s",
}
RETURNED = "returned"
BOOT = (
    "import json, sys; path, descriptor, modules = json.loads(sys.argv[1]);"
    "sys.path[:] = path; from shardbook.grading.jobs import supervisor;"
    "supervisor.serve(descriptor, modules)"
)


def require_limit(seconds: float) -> float:
    """Return how long a job may take, if that is a limit.

    Raises:
        ValueError: If it is not more than 0 and at most a day.
    """
    # Written so that it refuses NaN, which no comparison is true of.
    if not 0 < seconds <= DAY:
        raise ValueError(
            f"seconds must be more than 0 and at most {DAY}, but got "
            f"{seconds}"
        )
    return seconds


@dataclass(frozen=True)
class Outcome:
    """How a call ended.

    Attributes:
        value: What the function returned, or ``None`` if it did not.
        ending: ``"returned"``, or how its process ended instead: ``"used
            more than 60 s of CPU time"``, ``"ended with exit status 3"``,
            ``"died of SIGSEGV"``.
        output: The last 4,096 bytes that it printed.
        seconds: How long it took, in seconds of wall-clock time.
    """

    value: Any
    ending: str
    output: str
    seconds: float


UNWANTED = Outcome(None, "was not wanted", "", 0)
KILLED = Outcome(
    None, "and the one that watches over it were killed", "", 0
)
ENDED = (
    "the process that grades has ended; what it printed, if anything, is "
    "above"
)


class _Server:
    """A server process, and how to reach it.

    Args:
        folder: The folder that it works in.
        modules: What it imports beside jax and flax.
    """

    def __init__(self, folder: str, modules: Sequence[str]) -> None:
        # Not the folder that we are in: a file called jax.py in it would be
        # imported in the place of jax. That of the program comes last.
        here = {"", ".", os.getcwd()}
        program = os.path.abspath(os.path.dirname(sys.argv[0]))
        path = [entry for entry in sys.path if entry not in here]
        path.sort(key=lambda entry: entry == program)
        # For each connection, the server is sent one end of it.
        self.requests, theirs = socket.socketpair()
        with theirs:
            boot = json.dumps([path, theirs.fileno(), modules])
            self.process = subprocess.Popen(
                (sys.executable, "-E", "-P", "-c", BOOT, boot),
                cwd=folder,
                env=grading_environment(),
                pass_fds=[theirs.fileno()],
                # When this is closed, by us or by our end, the server ends.
                stdin=subprocess.PIPE,
                # Ctrl-C is for us alone.
                start_new_session=True,
            )
        # Whether a call has begun there. One that can't import jax ends
        # before, and another one would too.
        self.works = False

    def connect(self) -> Connection:
        """Connect to a supervisor of its own."""
        ours, theirs = socket.socketpair()
        link = Connection(ours.detach())
        # Without a server, nothing but an end comes from the link.
        with theirs, contextlib.suppress(OSError):
            socket.send_fds(self.requests, [b"."], [theirs.fileno()])
        return link

    def was_killed(self, within: float = 0) -> bool:
        """Tell whether it worked, and has ended or does within seconds."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(within)
        return self.works and self.process.returncode is not None

    def close(self) -> None:
        """End it, and all that it started."""
        self.requests.close()
        try:
            self.process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def _answer(link: Connection, wanted: Callable[[], bool]) -> Any:
    """Wait for what a supervisor sends, if that is still wanted."""
    while not link.poll(0.1):
        if not wanted():
            return UNWANTED
    try:
        return link.recv()
    except (EOFError, OSError):
        return KILLED


class Sandbox:
    """A server that calls functions in processes of their own.

    As a context manager, it ends the server and all that it started.

    Args:
        *modules: What the server imports beside jax and flax.
    """

    def __init__(self, *modules: str) -> None:
        if not hasattr(os, "fork"):
            raise OSError(
                "grading needs os.fork, which this system lacks; on "
                "Windows, use the Windows Subsystem for Linux"
            )
        require_versions()
        self._folder = tempfile.TemporaryDirectory(
            prefix="shardbook-", ignore_cleanup_errors=True
        )
        self._rehearsal: Any = None
        self._rehearsed: Connection | None = None
        self._lock = threading.Lock()
        self._closed = False
        self._modules = modules
        # The last is the one in use: a call can kill its server.
        self._servers = [_Server(self._folder.name, modules)]

    def __enter__(self) -> "Sandbox":
        """Return the sandbox itself."""
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the server, and all that it started."""
        with self._lock:
            self._closed = True
        if self._rehearsed:
            self._rehearsed.close()
        for server in self._servers:
            server.close()
        self._folder.cleanup()

    def map(
        self,
        target: str,
        calls: Iterable[Sequence[Any]],
        *,
        seconds: float = SECONDS,
        megabytes: int = MEGABYTES,
    ) -> Iterator[Outcome]:
        """Make several calls, as many at once as there are cores.

        ``calls`` are the arguments of each; all else is as for
        :meth:`call`. The outcomes come in the order of the calls.
        """
        call = partial(
            self.call, target, seconds=seconds, megabytes=megabytes
        )
        pool = ThreadPoolExecutor(os.cpu_count())
        try:
            yield from pool.map(call, calls)
        finally:
            # Not waiting for calls that still run: close() ends them.
            pool.shutdown(wait=False, cancel_futures=True)

    def call(
        self,
        target: str,
        arguments: Sequence[Any],
        *,
        seconds: float = SECONDS,
        megabytes: int = MEGABYTES,
        rehearsal: tuple[str, Sequence[Any]] | None = None,
        wanted: Callable[[], bool] = lambda: True,
    ) -> Outcome:
        """Call a function in a process of its own.

        Args:
            target: The function, as ``"module:name"``. What it returns
                must be what JSON can say.
            arguments: Its arguments, in terms of JSON.
            seconds: How many seconds of CPU time it may use, in all of its
                threads and child processes, and for how many seconds of
                wall-clock time it may hardly use the CPU.
            megabytes: How much memory it may ask for, in MiB, beyond what
                its process has as it begins.
            rehearsal: Another function and its arguments. A process calls
                it in advance, and then waits for the next call with the
                same rehearsal.
            wanted: Tells whether to wait on. If not, the call is ended.

        Returns:
            The outcome.

        Raises:
            OSError: If the server has ended.
        """
        ready = self._ready(rehearsal) if rehearsal else None
        while True:
            server = self._server()
            with ready or server.connect() as link:
                order = (target, arguments, megabytes)
                with contextlib.suppress(OSError):
                    link.send((order, seconds, True))
                outcome: Outcome = _answer(link, wanted)
                # That is to say that the call begins.
                if begins := outcome is None:
                    server.works, started = True, time.monotonic()
                    outcome = _answer(link, wanted)
            if outcome is UNWANTED:
                return UNWANTED
            if begins:
                break
            # What was killed before is no fault of this call.
            if not ready and not server.was_killed(within=0.5):
                raise OSError(ENDED)
            ready = None
        if outcome is KILLED:
            if self._closed:
                raise OSError(ENDED)
            outcome = replace(KILLED, seconds=time.monotonic() - started)
        if rehearsal and not self._rehearsed:
            self._rehearsal = rehearsal
            self._rehearsed = self._server().connect()
            with contextlib.suppress(OSError):
                self._rehearsed.send(((*rehearsal, 0), SECONDS, False))
        return outcome

    def _server(self) -> _Server:
        """Give the server, or another one if it was killed."""
        with self._lock:
            if self._closed:
                raise OSError(ENDED)
            if self._servers[-1].was_killed():
                another = _Server(self._folder.name, self._modules)
                self._servers.append(another)
            return self._servers[-1]

    def _ready(self, rehearsal: Any) -> Connection | None:
        """Give the process that has rehearsed this, if there is one."""
        ready = self._rehearsed
        same = rehearsal == self._rehearsal
        if not ready or (same and not ready.poll()):
            return None
        self._rehearsed = None
        # Its supervisor may have died, and the server live on.
        with contextlib.suppress(EOFError, OSError):
            if same and ready.recv().ending == RETURNED:
                return ready
        ready.close()
        return None
