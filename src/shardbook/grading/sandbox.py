"""Call functions in processes of their own, whatever they do there."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

from shardbook.grading.environment import (
    grading_environment,
    require_versions,
)

# What a job may take, unless the caller says otherwise.
SECONDS = 60.0
MEGABYTES = 8192
# The most seconds that a caller can allow.
DAY = 86_400
RETURNED = "returned"
BOOT = (
    "import json, sys; path, descriptor, modules = json.loads(sys.argv[1]);"
    "sys.path[:] = path; from shardbook.grading.supervisor import serve;"
    "serve(descriptor, modules)"
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
        ending: ``"returned"``, or how it ended instead: ``"took more than
            60 s"``, ``"ended with exit status 3"``, ``"died of SIGSEGV"``.
        output: The last 4,096 bytes that it printed.
        seconds: How long it took.
    """

    value: Any
    ending: str
    output: str
    seconds: float


@contextlib.contextmanager
def _from_the_server() -> Iterator[None]:
    """Say of an error of a connection that the server has ended."""
    try:
        yield
    except (EOFError, OSError) as error:
        raise OSError(
            "the process that grades has ended; what it printed, if "
            "anything, is above"
        ) from error


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
        # Not the folder that we are in: a file called jax.py in it would be
        # imported in the place of jax. That of the program comes last.
        here = {"", ".", os.getcwd()}
        program = os.path.abspath(os.path.dirname(sys.argv[0]))
        path = [entry for entry in sys.path if entry not in here]
        path.sort(key=lambda entry: entry == program)
        # For each connection, the server is sent one end of it.
        self._requests, theirs = socket.socketpair()
        with theirs:
            boot = json.dumps([path, theirs.fileno(), modules])
            self._server = subprocess.Popen(
                (sys.executable, "-E", "-P", "-c", BOOT, boot),
                cwd=self._folder.name,
                env=grading_environment(),
                pass_fds=[theirs.fileno()],
                # When this is closed, by us or by our end, the server ends.
                stdin=subprocess.PIPE,
                # Ctrl-C is for us alone.
                start_new_session=True,
            )

    def __enter__(self) -> "Sandbox":
        """Return the sandbox itself."""
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the server, and all that it started."""
        if self._rehearsed:
            self._rehearsed.close()
        self._requests.close()
        try:
            self._server.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            self._server.kill()
            self._server.wait()
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
            seconds: How long the call may take.
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
        with _from_the_server():
            link = self._link(rehearsal)
        with link:
            with _from_the_server():
                order = (target, arguments, megabytes)
                link.send((order, seconds, True))
            # What this raises is not of the server.
            while not link.poll(0.1):
                if not wanted():
                    return Outcome(None, "was not wanted", "", 0)
            with _from_the_server():
                outcome: Outcome = link.recv()
        if rehearsal and not self._rehearsed:
            with _from_the_server():
                self._rehearsal = rehearsal
                self._rehearsed = self._connect()
                self._rehearsed.send(((*rehearsal, 0), SECONDS, False))
        return outcome

    def _connect(self) -> Connection:
        """Connect to a supervisor of its own."""
        ours, theirs = socket.socketpair()
        link = Connection(ours.detach())
        with theirs:
            socket.send_fds(self._requests, [b"."], [theirs.fileno()])
        return link

    def _link(self, rehearsal: Any) -> Connection:
        """Connect to a process, one that has rehearsed if there is one."""
        ready = self._rehearsed
        if rehearsal and ready:
            same = rehearsal == self._rehearsal
            if same and not ready.poll():
                return self._connect()
            self._rehearsed = None
            # Its supervisor may have died, and the server live on.
            with contextlib.suppress(EOFError, OSError):
                if same and ready.recv().ending == RETURNED:
                    return ready
            ready.close()
        return self._connect()
