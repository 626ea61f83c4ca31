"""Make the calls of a sandbox in workers, and end the workers.

A server imports jax and flax, which is most of the time that a call takes.
It never asks for a device, so it can be forked. For each connection that a
client sends it forks a supervisor, which forks the worker that makes the
call. The supervisor limits the CPU time, ends all that the worker leaves
behind, and sends the outcome.
"""

import contextlib
import ctypes
import gc
import importlib
import math
import os
import resource
import signal
import socket
import sys
import tempfile
import time
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any, NoReturn

import psutil

from shardgrade.grading.progress import (
    LISTENER,
    Called,
    Progress,
)
from shardgrade.grading.show import KEPT
from shardgrade.jobs.limits import Limits
from shardgrade.jobs.sandbox import (
    RETURNED,
    Call,
    Outcome,
    Then,
)
from shardscope.family import Idleness, kill, kill_group, used

# The exit status of a worker whose call raised (EX_SOFTWARE), and of one
# that could not recover from a RecursionError.
FAILED = 70
RECURSED = 71
# How many bytes of output are read at once.
CHUNK = 2**16
# How often the use of the CPU is looked at, in seconds.
PAUSE = 0.5
# How many seconds a worker has to say where it is as it must end, and how
# many processes it may start: what forks without end must not take the
# machine.
GRACE = 3
PROCESSES = 256
# The signals that tell a worker that it must end, and what each says of it.
LIMITS = {
    signal.SIGXCPU: "used more than {:g} s of CPU time",
    signal.SIGALRM: "hardly used the CPU for {:g} s",
}
# What prctl is told on Linux: to send a signal to a process whose parent
# ends, and to be the parent of those that have none any more.
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36


def serve(descriptor: int, module: str) -> NoReturn:
    """Be the server, until standard input is closed.

    Args:
        descriptor: The socket that connections are sent to.
        module: What to import before there is a call, for all of them.
    """
    requests = socket.socket(fileno=descriptor)
    # What is imported stays: to look for garbage in it would only take
    # time, and later copy the pages that forks share.
    gc.disable()
    importlib.import_module(module)
    gc.freeze()
    gc.enable()
    # Supervisors need not be waited for as they end.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while 0 not in wait([requests, 0]):
        _, received, _, _ = socket.recv_fds(requests, 1, 1)
        if not received:
            break
        with Connection(received[0]) as client:
            if os.fork() == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                requests.close()
                _supervise(client)
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()
    # An ordinary end would first free all that was imported.
    os._exit(0)


def _supervise(client: Connection) -> NoReturn:
    """Have a worker make the calls of one client, until the last."""
    # So that a worker can't leave a process behind. Elsewhere it may.
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    with tempfile.TemporaryDirectory(
        dir=os.getcwd(), ignore_cleanup_errors=True
    ) as folder:
        worker = _Worker(folder)
        last = False
        try:
            while not last:
                call, limits, last = client.recv()
                if worker.link.poll():
                    # The worker died before this call began: the client
                    # asks for another one.
                    raise EOFError
                if last:
                    client.send(None)
                started, printed = time.monotonic(), b""
                value, ending = worker.make(call, limits, client)
                while isinstance(value, Then):
                    worker.end()
                    printed += worker.printed
                    worker = _Worker(folder)
                    value, ending = worker.make(value.call, limits, client)
                took = time.monotonic() - started
                if last or ending != RETURNED:
                    worker.end()
                printed = (printed + worker.printed)[-KEPT:]
                words = printed.decode("utf-8", "replace")
                at = worker.told, worker.called
                client.send(Outcome(value, ending, words, took, *at))
        except (EOFError, ConnectionError):
            # The client waits no more, or the server is to end.
            worker.end()
    os._exit(0)


class _Worker:
    """A process that makes calls, as its supervisor sees it."""

    def __init__(self, folder: str) -> None:
        self.link, theirs = Pipe()
        self.output, output = os.pipe()
        self.printed = b""
        self.pid = os.fork()
        if self.pid == 0:
            _make_calls(folder, theirs, output)
        theirs.close()
        os.close(output)

    def make(
        self, call: Call[Any], limits: Limits, client: Connection
    ) -> tuple[Any, str]:
        """Make a call; return its value and its ending.

        What it tells before it ends is passed on to the client.
        """
        # What is there was printed by an earlier call.
        while wait([self.output], 0) and self.read():
            pass
        self.printed = b""
        self.told = self.called = ""
        meter = _Meter(limits.seconds)
        ending, deadline = "", math.inf
        with contextlib.suppress(ConnectionError):
            self.link.send((call, limits.megabytes))
        sources: list[Any] = [client, 0, self.link, self.output]
        pause = min(PAUSE, limits.seconds / 4)
        look = time.monotonic() + pause
        while time.monotonic() < deadline:
            ready = wait(sources, pause)
            if client in ready or 0 in ready:
                raise EOFError
            if self.output in ready and not self.read():
                sources.remove(self.output)
            if self.link in ready:
                try:
                    value = self.link.recv()
                except (EOFError, OSError):
                    return None, ending or self.ending()
                if not isinstance(value, Progress):
                    return value, RETURNED
                if isinstance(value, Called):
                    self.called = value
                else:
                    self.told = value
                    client.send(value)
            if not ending and time.monotonic() > look:
                look = time.monotonic() + pause
                if number := meter.exceeded():
                    ending = LIMITS[number].format(limits.seconds)
                    deadline = time.monotonic() + GRACE
                    os.kill(self.pid, number)
                elif meter.processes > PROCESSES:
                    ending = f"started more than {PROCESSES} processes"
                    break
        return None, ending

    def read(self) -> bool:
        """Read what the worker printed; return whether there was any."""
        words = os.read(self.output, CHUNK)
        self.printed = (self.printed + words)[-KEPT:]
        return bool(words)

    def ending(self) -> str:
        """Say how the worker ended; it has closed its end of the link."""
        try:
            # On its way out, or not.
            code = psutil.Process(self.pid).wait(0.5)
        except psutil.TimeoutExpired:
            return "closed its files and went on"
        if code < 0:
            return f"died of {signal.Signals(-code).name}"
        if code == RECURSED:
            return "met a RecursionError, and did not recover"
        return f"ended with exit status {code}"

    def end(self) -> None:
        """End the worker and all processes that it has started."""
        # Where orphans are not adopted, this ends some of them.
        kill_group(self.pid)
        with contextlib.suppress(ChildProcessError):
            while True:
                kill(_family())
                os.wait()
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
        if wait([self.output], 0):
            self.read()


class _Meter:
    """Measures what all processes of a supervisor use of the CPU."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.processes = 0
        self.before = used(_family())
        self.idleness = Idleness(seconds, self.before)

    def exceeded(self) -> signal.Signals | None:
        """Give the signal of the limit that is exceeded, if one is."""
        family = _family()
        self.processes, total = len(family), used(family)
        if total - self.before > self.seconds:
            return signal.SIGXCPU
        return signal.SIGALRM if self.idleness.is_long(total) else None


def _family() -> list[psutil.Process]:
    """Give the worker, and all processes that it has started."""
    return psutil.Process().children(recursive=True)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _make_calls(folder: str, link: Connection, output: int) -> NoReturn:
    """Make the calls that the supervisor asks for, until it ends us."""
    status = FAILED
    try:
        os.setsid()
        # If an attempt kills the supervisor, nothing else ends the worker.
        _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        os.chdir(folder)
        # What it leaves in a temporary folder is to go with this one.
        tempfile.tempdir = folder
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        # The files of the server and the supervisor are not the worker's.
        os.closerange(3, link.fileno())
        os.closerange(link.fileno() + 1, 4096)
        LISTENER.set(link.send)
        while True:
            call, megabytes = link.recv()
            if megabytes:
                _limit_memory(megabytes)
            value = call()
            with contextlib.suppress(Exception):
                sys.stdout.flush()
            link.send(value)
    except RecursionError:
        # A cycle in a tree can leave Python unable to call anything much.
        status = RECURSED
    except BaseException as error:
        words = (
            f"the grading itself failed: {type(error).__name__}: {error}"
        )
        os.write(1, words.encode(errors="backslashreplace"))
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
        # An ordinary end would wait for threads that are left behind.
        os._exit(status)


def _limit_memory(megabytes: int) -> None:
    limit = psutil.Process().memory_info().vms + megabytes * 2**20
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
