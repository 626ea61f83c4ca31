"""Make calls in processes of their own, whatever they do there."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from typing import Any, Generic, Protocol, TypeVar

from shardgrade.grading.progress import Progress, unheard
from shardgrade.jobs.environment import grading_environment
from shardgrade.jobs.limits import REHEARSAL, USUAL, Limits

S = TypeVar("S")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

RETURNED = "returned"
BOOT = (
    "import json, sys; sys.path[:], *rest = json.loads(sys.argv[1]);"
    "from shardgrade.jobs import supervisor;"
    "supervisor.serve(*rest)"
)


class Call(Protocol[T_co]):
    """A function without arguments, which can be pickled."""

    def __call__(self) -> "T_co | Then[T_co]":
        """Return a value, or which call gives it in a fresh process."""


@dataclass(frozen=True)
class Then(Generic[T_co]):
    """What a call returns to have another one made, in a fresh process.

    Attributes:
        call: The other call, whose value counts.
    """

    call: Call[T_co]


@dataclass(frozen=True)
class Outcome(Generic[T]):
    """How a call ended.

    Attributes:
        value: What the call returned, or ``None`` if it did not.
        ending: ``"returned"``, or how its process ended instead: ``"used
            more than 60 s of CPU time"``, ``"ended with exit status 3"``,
            ``"died of SIGSEGV"``.
        output: The last 4,096 bytes that it printed.
        seconds: How long it took, in seconds of wall-clock time.
        told: How far it had come, as it told last.
        called: What it had called last, as code.
    """

    value: T | None
    ending: str
    output: str
    seconds: float
    told: str = ""
    called: str = ""


KILLED: Outcome[Any] = Outcome(
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
        module: What it imports before there is a call.
    """

    def __init__(self, folder: str, module: str) -> None:
        # Not the folder that we are in: a file called jax.py in it would be
        # imported in the place of jax. That of the program comes last.
        here = {"", ".", os.getcwd()}
        program = os.path.abspath(os.path.dirname(sys.argv[0]))
        path = [entry for entry in sys.path if entry not in here]
        path.sort(key=lambda entry: entry == program)
        # For each connection, the server is sent one end of it.
        self.requests, theirs = socket.socketpair()
        with theirs:
            boot = json.dumps([path, theirs.fileno(), module])
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


class Running(Generic[T]):
    """A call that was started, to be waited for or given up.

    As a context manager, it ends the call if that has not ended.

    Args:
        sandbox: What runs it.
        call: The call.
        limits: What it may use.
        rehearsal: The call that is made in advance, if one is.
    """

    def __init__(
        self,
        sandbox: "Sandbox",
        call: Call[T],
        limits: Limits,
        rehearsal: Call[Any] | None,
    ) -> None:
        self._sandbox, self._rehearsal = sandbox, rehearsal
        self._order = (call, limits, True)
        self._begun = 0.0
        self._send(sandbox._ready(rehearsal))

    def __enter__(self) -> "Running[T]":
        """Return the call itself."""
        return self

    def __exit__(self, *_: object) -> None:
        self._link.close()

    def wait(
        self,
        seconds: float | None = None,
        told: Callable[[str], None] = unheard,
    ) -> Outcome[T] | None:
        """Wait until the call ends, or for so many seconds.

        Args:
            seconds: How long to wait at most, ``None`` for any time.
            told: What to call with how far the call has come.

        Returns:
            The outcome, or ``None`` if the call goes on.

        Raises:
            OSError: If the server has ended.
        """
        end = None if seconds is None else time.monotonic() + seconds
        while self._link.poll(end and max(0, end - time.monotonic())):
            try:
                outcome = self._link.recv()
            except (EOFError, OSError):
                outcome = KILLED
            # That is to say that the call begins.
            if outcome is None:
                self._server.works, self._begun = True, time.monotonic()
            elif isinstance(outcome, Progress):
                told(outcome)
            elif self._begun:
                return self._end(outcome)
            # The worker or the server was killed before this call began, so
            # another one makes it.
            elif self._rehearsed or self._server.was_killed(within=0.5):
                self._link.close()
                self._send()
            else:
                raise OSError(ENDED)
        return None

    def outcome(self, told: Callable[[str], None] = unheard) -> Outcome[T]:
        """Wait until the call ends, and give its outcome.

        Args:
            told: What to call with how far the call has come.

        Raises:
            OSError: If the server has ended.
        """
        outcome = self.wait(told=told)
        assert outcome, "without seconds, wait() ends with the call"
        return outcome

    def _send(self, rehearsed: Connection | None = None) -> None:
        """Send the call to a process that has rehearsed, or to another."""
        self._rehearsed = rehearsed is not None
        self._server = self._sandbox._server()
        self._link = rehearsed or self._server.connect()
        with contextlib.suppress(OSError):
            self._link.send(self._order)

    def _end(self, outcome: Outcome[T]) -> Outcome[T]:
        """Complete the outcome, and have the next call rehearsed."""
        if outcome is KILLED:
            if self._sandbox._closed:
                raise OSError(ENDED)
            took = time.monotonic() - self._begun
            outcome = replace(KILLED, seconds=took)
        self._sandbox._rehearse(self._rehearsal)
        return outcome


class Sandbox:
    """A server that makes calls in processes of their own.

    As a context manager, it ends the server and all that it started.

    Args:
        module: What the server imports before there is a call, so that no
            call waits for it.
    """

    def __init__(self, module: str) -> None:
        if not hasattr(os, "fork"):
            raise OSError(
                "grading needs os.fork, which this system lacks; on "
                "Windows, use the Windows Subsystem for Linux"
            )
        self._folder = tempfile.TemporaryDirectory(
            prefix="shardbook-", ignore_cleanup_errors=True
        )
        self._rehearsal: Call[Any] | None = None
        self._rehearsed: Connection | None = None
        self._lock = threading.Lock()
        self._closed = False
        # The last is the one in use: a call can kill its server.
        self._module = module
        self._servers = [_Server(self._folder.name, module)]

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

    def start(
        self,
        call: Call[T],
        limits: Limits = USUAL,
        rehearsal: Call[Any] | None = None,
    ) -> Running[T]:
        """Start a call in a process of its own.

        Args:
            call: The call.
            limits: What it may use.
            rehearsal: Another call. When this one has ended, a process
                makes the rehearsal, and then waits for the next call that
                is started with an equal one.

        Raises:
            OSError: If the server has ended.
        """
        return Running(self, call, limits, rehearsal)

    def call(
        self,
        call: Call[T],
        limits: Limits = USUAL,
        told: Callable[[str], None] = unheard,
    ) -> Outcome[T]:
        """Make a call, and wait until it ends.

        Args:
            call: The call.
            limits: What it may use.
            told: What to call with how far it has come.

        Raises:
            OSError: If the server has ended.
        """
        with self.start(call, limits) as running:
            return running.outcome(told)

    def _server(self) -> _Server:
        """Give the server, or another one if it was killed."""
        with self._lock:
            if self._closed:
                raise OSError(ENDED)
            if self._servers[-1].was_killed():
                server = _Server(self._folder.name, self._module)
                self._servers.append(server)
            return self._servers[-1]

    def _ready(self, rehearsal: Call[Any] | None) -> Connection | None:
        """Give the process that has rehearsed this, if there is one."""
        ready = self._rehearsed
        same = rehearsal == self._rehearsal
        if not (rehearsal and ready) or (same and not ready.poll()):
            return None
        self._rehearsed = None
        # Its supervisor may have died, and the server live on.
        with contextlib.suppress(EOFError, OSError):
            if same and ready.recv().ending == RETURNED:
                return ready
        ready.close()
        return None

    def _rehearse(self, rehearsal: Call[Any] | None) -> None:
        """Have a process rehearse, if none has or does."""
        if rehearsal and not self._rehearsed:
            self._rehearsal = rehearsal
            self._rehearsed = self._server().connect()
            with contextlib.suppress(OSError):
                self._rehearsed.send((rehearsal, REHEARSAL, False))


def at_once(function: Callable[[S], T], items: Iterable[S]) -> Iterator[T]:
    """Call a function for each item, as many at once as there are cores.

    The results come in the order of the items.
    """
    pool = ThreadPoolExecutor(os.cpu_count())
    try:
        yield from pool.map(function, items)
    finally:
        # Not waiting for calls that still run: Sandbox.close() ends them.
        pool.shutdown(wait=False, cancel_futures=True)
