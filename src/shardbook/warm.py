"""One process that has imported jax and flax, to fork others from.

Most of the time that an attempt takes goes to these imports. The warm
process pays for them once. It never asks for a device, so it can fork: each
job runs in a fork of its own, which sets up its devices itself. A job may
hang, die, print without end or leave processes behind. The warm process
ends it, cleans up, and reports.

Where the next job can be foreseen, a fork rehearses for it: it makes a call
of ours that compiles what the job will need, and waits.
"""

import contextlib
import ctypes
import gc
import importlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection, Listener, Pipe, wait
from typing import Any

import psutil

# What no job should have to import.
PRELOADED = (
    "jax.numpy",
    "flax.linen",
    "flax.nnx",
    "optax",
    "shardbook.grading",
)
# Settings of the reader's that would change what jax and flax do.
FOREIGN = ("JAX_", "XLA_", "FLAX_", "NNX_", "TF_", "PYTHON", "LIBTPU_")
# What a job may take, unless its owner says otherwise.
SECONDS, MEGABYTES = 60.0, 8192
# How a job ends if its function raised, by sysexits.h and one more.
FAILED, RECURSED = 70, 71
# How much of what a job printed is kept, from the end.
KEPT = 4096
# How large the folder of compiled programs may be when we start.
LARGEST_CACHE = 2**28
BOOT = (
    "import json, sys; path, modules, door = json.loads(sys.argv[1]);"
    "sys.path[:] = path; from shardbook.warm import open_door;"
    "open_door(door, modules)"
)
# The limit of what runs as long as it takes.
NEVER = 7 * 24 * 3600.0


@dataclass(frozen=True)
class Outcome:
    """How a job ended.

    Attributes:
        value: What the job returned, or ``None`` if it did not.
        ending: ``"returned"``, or how it ended instead: ``"ran out of
            time"``, ``"ended with exit status 3"``, ``"died of SIGSEGV"``.
        output: The last of what it printed.
        seconds: How long it took.
    """

    value: Any
    ending: str
    output: str
    seconds: float


class Warm:
    """The warm process, seen from outside. A context manager.

    Args:
        modules: What it imports beside jax and flax.
    """

    def __init__(self, *modules: str) -> None:
        if not hasattr(os, "fork"):
            raise OSError(
                "grading needs os.fork, which this system lacks; on "
                "Windows, use the Windows Subsystem for Linux"
            )
        # Through the door come the links, one for each who wants to run
        # something.
        self._door, door = socket.socketpair()
        # Not the folder that we are in: a file called jax.py in it would be
        # imported in the place of jax. That of the program comes last.
        here = {"", ".", os.getcwd()}
        program = os.path.abspath(os.path.dirname(sys.argv[0]))
        path = [entry for entry in sys.path if entry not in here]
        path.sort(key=lambda entry: entry == program)
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(FOREIGN)
        }
        self._folder = tempfile.mkdtemp(prefix="shardbook-")
        environment["JAX_PLATFORMS"] = "cpu"
        # Attempts at one problem compile much the same programs, today
        # and tomorrow.
        environment["JAX_COMPILATION_CACHE_DIR"] = _cache(self._folder)
        environment["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
        environment["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"
        self._process = subprocess.Popen(
            (
                *(sys.executable, "-E", "-P", "-c", BOOT),
                json.dumps([path, [*PRELOADED, *modules], door.fileno()]),
            ),
            cwd=self._folder,
            env=environment,
            pass_fds=[door.fileno()],
            stdin=subprocess.DEVNULL,
            # Ctrl-C is for us; we tell it when to end.
            start_new_session=True,
        )
        door.close()
        self._link = self._connect()

    def _connect(self) -> Connection:
        ours, theirs = socket.socketpair()
        with theirs, contextlib.suppress(BrokenPipeError):
            socket.send_fds(self._door, [b"."], [theirs.fileno()])
        return Connection(ours.detach())

    def __enter__(self) -> "Warm":
        """Give the process itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the process, and all that it started."""
        self.close()

    def close(self) -> None:
        """End the process, and all that it started."""
        self._link.close()
        self._door.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def run(
        self,
        target: str,
        jobs: Sequence[Sequence[Any]],
        *,
        seconds: float = SECONDS,
        megabytes: int = MEGABYTES,
        rehearsal: tuple[str, Sequence[Any]] | None = None,
    ) -> Iterator[tuple[int, Outcome]]:
        """Run a function once for each job, some of them at a time.

        Args:
            target: The function, as ``"module:name"``. What it returns
                must be what JSON can say.
            jobs: The arguments of each call, in terms of JSON.
            seconds: How long each job may take.
            megabytes: How much memory each job may ask for, beyond what
                the warm process has.
            rehearsal: A function and its arguments, to be called in a
                process that a later request with the same rehearsal may
                use for its first job.

        Yields:
            The number of a job and its outcome, as they end.

        Raises:
            OSError: If the warm process itself is gone.
        """
        if not jobs:
            return
        request = [target, list(jobs), seconds, megabytes, rehearsal]
        try:
            self._link.send_bytes(json.dumps(request).encode())
            for _ in jobs:
                number, outcome = json.loads(self._link.recv_bytes())
                yield number, Outcome(**outcome)
        except (EOFError, BrokenPipeError, ConnectionResetError):
            raise OSError(
                "the process that grades came to an end; what it printed, "
                "if anything, is above"
            ) from None

    def start(self, target: str, *arguments: Any) -> "Running":
        """Run a function in a process, without limits, and go on.

        Args:
            target: The function, as ``"module:name"``.
            *arguments: Its arguments, in terms of JSON.

        Returns:
            What tells whether it still runs, and can end it. Also a fork
            of this process may call this.
        """
        return Running(self._connect(), target, arguments)

    def welcome(self, listener: Listener) -> None:
        """Let other processes run functions here, each over its own link.

        Args:
            listener: Where they connect, as long as it is open.
        """
        with contextlib.suppress(OSError):
            while True:
                with listener.accept() as link:
                    socket.send_fds(self._door, [b"."], [link.fileno()])


class Running:
    """A function that runs in a process of its own, without limits.

    Args:
        link: A link to the warm process, for this alone.
        target: The function, as ``"module:name"``.
        arguments: Its arguments, in terms of JSON.
    """

    def __init__(
        self, link: Connection, target: str, arguments: Sequence[Any]
    ) -> None:
        self._link = link
        self._outcome: Outcome | None = None
        request = [target, [arguments], NEVER, 0, None]
        link.send_bytes(json.dumps(request).encode())

    def poll(self) -> Outcome | None:
        """Give how it ended, or None as long as it runs."""
        if self._outcome is None and self._link.poll():
            try:
                _, outcome = json.loads(self._link.recv_bytes())
                self._outcome = Outcome(**outcome)
            except (EOFError, ConnectionResetError):
                self._outcome = Outcome(None, "was lost", "", 0.0)
        return self._outcome

    def end(self) -> None:
        """End it, and all processes that it started."""
        self._outcome = self._outcome or Outcome(None, "was ended", "", 0.0)
        self._link.close()


def _cache(folder: str) -> str:
    """Find a place to keep compiled programs: the user's, or a folder."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser(
        "~/.cache"
    )
    path = os.path.join(home, "shardbook")
    with contextlib.suppress(OSError):
        os.makedirs(path, exist_ok=True)
        programs = list(os.scandir(path))
        if sum(each.stat().st_size for each in programs) > LARGEST_CACHE:
            for each in programs:
                os.unlink(each)
    return path if os.access(path, os.W_OK) else os.path.join(folder, "c")


class _Job:
    """A fork of the warm process, seen from there."""

    def __init__(self) -> None:
        self.folder = tempfile.mkdtemp(dir=os.getcwd())
        self.link, theirs = Pipe()
        self.output, output = Pipe(duplex=False)
        self.words, self.talks = b"", True
        self.pid = os.fork()
        if self.pid == 0:
            _be_job(self.folder, theirs, output)
        theirs.close()
        output.close()

    def call(
        self, target: str, arguments: Sequence[Any], megabytes: int | None
    ) -> None:
        """Have it call a function."""
        self.started = time.monotonic()
        self.value, self.returned = None, False
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            order = json.dumps([target, arguments, megabytes])
            self.link.send_bytes(order.encode())

    def read(self) -> bool:
        """Take what the job has to say; tell whether it is done."""
        # So many times at most: some never stop talking.
        for _ in range(64):
            if not self.talks or not self.output.poll():
                break
            words = os.read(self.output.fileno(), 1 << 16)
            self.talks = bool(words)
            self.words = (self.words + words)[-KEPT:]
        if not self.link.poll():
            return False
        with contextlib.suppress(EOFError, OSError, ValueError):
            self.value = json.loads(self.link.recv_bytes(1 << 24))
            self.returned = True
        return True

    def end(self, ending: str = "") -> Outcome:
        """End the job and all its processes, and say how it went."""
        seconds = time.monotonic() - self.started
        family = []
        with contextlib.suppress(psutil.Error):
            family = psutil.Process(self.pid).children(recursive=True)
        if not self.returned and not ending:
            # It closed its end of the pipe, on its way out or not.
            deadline = time.monotonic() + 0.5
            while time.monotonic() < deadline:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                if pid:
                    ending = _ending(os.waitstatus_to_exitcode(status))
                    break
                time.sleep(0.01)
            else:
                ending = "closed its files and went on"
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        for member in family:
            with contextlib.suppress(psutil.Error):
                member.kill()
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)
        self.read()
        self.link.close()
        self.output.close()
        shutil.rmtree(self.folder, ignore_errors=True)
        return Outcome(
            self.value if not ending else None,
            ending or "returned",
            self.words.decode("utf-8", "replace"),
            seconds,
        )


def _ending(status: int) -> str:
    if status < 0:
        return f"died of {signal.Signals(-status).name}"
    if status == RECURSED:
        return "met a RecursionError, and did not recover"
    return f"ended with exit status {status}"


def _be_job(folder: str, link: Connection, output: Connection) -> None:
    """Make the calls that a job is told to make, until it is ended."""
    status = FAILED
    try:
        os.setsid()
        os.chdir(folder)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
        # The pipes of the warm process are none of the job's business.
        kept = link.fileno()
        os.closerange(3, kept)
        os.closerange(kept + 1, 4096)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        while True:
            target, arguments, megabytes = json.loads(link.recv_bytes())
            if megabytes:
                _limit_memory(megabytes)
            module, _, name = target.partition(":")
            value = getattr(importlib.import_module(module), name)(
                *arguments
            )
            with contextlib.suppress(Exception):
                sys.stdout.flush()
            link.send_bytes(json.dumps(value).encode())
    except RecursionError:
        # A cycle in a tree can leave Python unable to call anything much.
        status = RECURSED
    except BaseException as error:
        words = (
            f"the grading itself failed: {type(error).__name__}: {error}"
        )
        os.write(1, words.encode())
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
        # Without the clean-up of an ordinary end, for which threads that
        # the job left behind would have to be waited for.
        os._exit(status)


def _limit_memory(megabytes: int) -> None:
    import resource

    used = psutil.Process().memory_info().vms
    limit = used + megabytes * 2**20
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _adopt_orphans() -> None:
    """Become the parent of processes whose own parent has ended.

    So that a job can't leave a process behind by ending before it. Only
    Linux has this; elsewhere such a process outlives the job.
    """
    if sys.platform == "linux":
        pr_set_child_subreaper = 36
        ctypes.CDLL(None).prctl(pr_set_child_subreaper, 1, 0, 0, 0)


def _end_orphans(jobs: Iterable[_Job]) -> None:
    known = {job.pid for job in jobs}
    for child in psutil.Process().children():
        if child.pid not in known:
            with contextlib.suppress(psutil.Error):
                for each in (*child.children(recursive=True), child):
                    each.kill()
            with contextlib.suppress(ChildProcessError):
                os.waitpid(child.pid, 0)


def open_door(descriptor: int, modules: Sequence[str]) -> None:
    """Be the warm process, until the other end of the door is closed."""
    door = socket.socket(fileno=descriptor)
    for name in modules:
        importlib.import_module(name)
    # What is there now is never to be looked at by the collector, which
    # would copy the pages that forks share.
    gc.freeze()
    # Those who serve are not waited for as they end, only all at the end.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while link := socket.recv_fds(door, 1, 1)[1]:
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            door.close()
            _serve(Connection(*link))
            os._exit(0)
        os.close(*link)
    # They end when their links do; their folders are in ours.
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()


def _serve(link: Connection) -> None:
    """Answer requests, until the other end of the link is closed."""
    _adopt_orphans()
    server = _Server(link)
    try:
        while True:
            server.answer(*json.loads(link.recv_bytes()))
    except (EOFError, ConnectionResetError, BrokenPipeError):
        pass
    finally:
        server.end()


class _Server:
    """A fork that runs jobs, and has one process that has rehearsed."""

    def __init__(self, link: Connection) -> None:
        self.link = link
        self.jobs: dict[int, _Job] = {}
        self.rehearsed: _Job | None = None
        self.rehearsal: list[Any] | None = None

    def end(self) -> None:
        """End all processes."""
        for job in self.jobs.values():
            job.end()
        self.jobs.clear()
        self.rehearse(None)
        _end_orphans(())

    def rehearse(self, rehearsal: list[Any] | None) -> None:
        """Have a process ready for a job of this kind, and no other."""
        if self.rehearsed and rehearsal != self.rehearsal:
            self.rehearsed.end()
            self.rehearsed = None
        self.rehearsal = rehearsal
        if rehearsal and not self.rehearsed:
            self.rehearsed = _Job()
            self.rehearsed.call(*rehearsal, None)

    def job(self, rehearsal: list[Any] | None) -> _Job:
        """Give a process for a job: one that is ready, or a new one."""
        ready = self.rehearsed
        if not ready or rehearsal != self.rehearsal or not ready.read():
            return _Job()
        self.rehearsed = None
        if ready.returned:
            return ready
        ready.end()
        return _Job()

    def answer(
        self,
        target: str,
        waiting: list[list[Any]],
        seconds: float,
        megabytes: int,
        rehearsal: list[Any] | None,
    ) -> None:
        """Run the jobs of one request, some at a time: one a core."""
        queue, jobs = deque(enumerate(waiting)), self.jobs
        while queue or jobs:
            while queue and len(jobs) < (os.cpu_count() or 1):
                number, arguments = queue.popleft()
                jobs[number] = self.job(rehearsal)
                jobs[number].call(target, arguments, megabytes)
            first = min(job.started for job in jobs.values()) + seconds
            pipes = [
                pipe
                for job in jobs.values()
                for pipe in (job.link, job.output)
                if pipe is job.link or job.talks
            ]
            patience = max(first - time.monotonic(), 0.01)
            ready = wait([self.link, *pipes], patience)
            if self.link in ready:
                # Nothing is sent while jobs run: the other end was closed.
                raise EOFError
            for number, job in list(jobs.items()):
                outcome = None
                if job.link in ready or job.output in ready:
                    outcome = job.end() if job.read() else None
                late = time.monotonic() - job.started >= seconds
                if outcome is None and late:
                    outcome = job.end(f"took more than {seconds:g} s")
                if outcome is not None:
                    del jobs[number]
                    _end_orphans(
                        [*jobs.values(), *filter(None, [self.rehearsed])]
                    )
                    reply = [number, asdict(outcome)]
                    self.link.send_bytes(json.dumps(reply).encode())
        self.rehearse(rehearsal)
