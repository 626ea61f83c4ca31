"""Watch several processes, and end all of them when one has failed."""

import contextlib
import os
import re
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import psutil

from shardscope.cluster.fates import (
    Died,
    Exited,
    Fate,
    Lingering,
    Raised,
    Returned,
    Waiting,
    has_failed,
)
from shardscope.cluster.member import WHERE, Seat
from shardscope.cluster.output import Lines
from shardscope.family import (
    Idleness,
    kill,
    kill_group,
    used,
    wait_for_killed,
)
from shardscope.lines import lines_of_reader

# How often we look whether a process has died, in seconds, and how long
# the others have to fail for a cause of their own, and to say where they
# are.
PAUSE = 0.1
GRACE = 1
ANSWER = 2


@dataclass(eq=False)
class Member:
    """One of the processes, seen from outside.

    Attributes:
        process: The process, which leads a process group.
        link: Where it sends what becomes of it.
        outputs: What it prints.
        trace: The file that it writes down where it is.
        told: What to call with anything else that it sends.
        fate: What became of it, if that is known.
        joined: Whether it has joined the others.
        ended: Whether it has ended.
        thread: The id of its main thread, once it has sent that.
    """

    process: psutil.Process
    link: Connection
    outputs: Sequence[Lines]
    trace: str
    told: Callable[[Any], None] = lambda _: None
    fate: Fate | None = None
    joined: bool = False
    ended: bool = False
    thread: int = 0

    def __post_init__(self) -> None:
        self._family = {self.process}

    def hear(self) -> None:
        """Take in what it has sent."""
        with contextlib.suppress(EOFError, OSError):
            while self.link.poll():
                match self.link.recv():
                    case "joined":
                        self.joined = True
                    case int(thread):
                        self.thread = thread
                    case Returned() | Raised() | Exited() as fate:
                        self.fate = fate
                        # It may end, and its children have no parent then.
                        self.family()
                    case words:
                        self.told(words)

    def look(self) -> None:
        """See whether it has ended, and how."""
        with contextlib.suppress(psutil.TimeoutExpired):
            code = self.process.wait(0)
            self.ended = True
            # Its last words may be in the link still.
            self.hear()
            if self.fate is None:
                self.fate = Died(code or 0)
            elif code and isinstance(self.fate, Returned):
                self.fate = Died(code, late=True)

    def used(self) -> float:
        """Give the seconds of CPU time of it and its children."""
        return used(self.family())

    def family(self) -> set[psutil.Process]:
        """Give it and its children, with those that it had before."""
        with contextlib.suppress(psutil.Error):
            self._family.update(self.process.children(recursive=True))
        return self._family

    def ask(self) -> None:
        """Have it write down where its threads are."""
        if self.thread:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.process.pid, WHERE)

    def lines(self) -> tuple[str, ...]:
        """Find the reader's lines in what it has written down."""
        main = f"0x{self.thread:016x} "
        for thread in re.split(
            "^(?=Thread|Current)", self._written(), flags=re.M
        ):
            if main in thread.partition("\n")[0]:
                return lines_of_reader(
                    re.findall(
                        r'^  File "(.*)", line (\d+) in', thread, re.M
                    )
                )
        return ()

    def has_answered(self) -> bool:
        """Tell whether it has written down where it is."""
        # The main thread is the last, and the outermost line is of Python.
        return "in <module>\n" in self._written()

    def _written(self) -> str:
        trace = Path(self.trace)
        return trace.read_text() if trace.exists() else ""

    def kill(self) -> None:
        """End it with all its children."""
        family = self.family()
        kill_group(self.process.pid)
        kill(family)

    def close(self) -> None:
        """Wait until it has ended with its children; close the files."""
        with contextlib.suppress(psutil.Error):
            self.process.wait()
        wait_for_killed(self._family)
        for each in self.outputs:
            each.close()
        self.link.close()


def end(members: Sequence[Member]) -> None:
    """End all members, and whatever they have started."""
    # What they print from here on is about one another.
    for each in members:
        for output in each.outputs:
            output.pump()
    # The first is where the others meet.
    for each in reversed(members):
        each.kill()
    for each in members:
        each.close()


@contextlib.contextmanager
def group(
    start: Callable[[Seat], Member], processes: int, devices: int
) -> Iterator[list[Member]]:
    """Start processes, and end all of them, however the block ends.

    Args:
        start: Starts one of them.
        processes: How many.
        devices: How many CPU devices each has.
    """
    with tempfile.TemporaryDirectory() as folder, reserved_port() as port:
        members: list[Member] = []
        try:
            for index in range(processes):
                trace = os.path.join(folder, str(index))
                seat = Seat(index, processes, devices, port, trace)
                members.append(start(seat))
            yield members
        finally:
            end(members)


@contextlib.contextmanager
def reserved_port() -> Iterator[int]:
    """Reserve a port on the loopback that is free.

    While it is bound here, the system gives it to nobody who asks for any
    port, and the coordinator can bind it as well: both share it.
    """
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


def fates_of(members: Sequence[Member]) -> dict[int, Fate]:
    """Say what became of each, or where it is."""
    # An interrupt may come before what they sent last is heard.
    for each in members:
        each.hear()
    _ask(members)
    # Until then, one that has returned waits for the others.
    over = all(m.fate and not has_failed(m.fate) for m in members)
    return {
        index: Lingering()
        if over and not each.ended
        else each.fate
        or Waiting(each.lines(), each.joined, each.has_answered())
        for index, each in enumerate(members)
    }


def watch(
    members: Sequence[Member], seconds: float, timeout: float | None = None
) -> str:
    """Wait until all have ended, one has failed, or all wait.

    Args:
        members: The processes.
        seconds: How long none of them may use the CPU.
        timeout: How long they may take, if there is a limit.

    Returns:
        Why it waits no longer, if none has failed and not all have ended.
    """
    start, until = time.monotonic(), 0.0
    idleness = Idleness(seconds)
    outputs = {x.file: x for each in members for x in each.outputs}
    while True:
        links = [each.link for each in members if each.fate is None]
        for file in wait([*outputs, *links], PAUSE):
            if isinstance(file, int) and not outputs[file].pump():
                del outputs[file]
        for each in members:
            each.hear()
            each.look()
        now = time.monotonic()
        fates = [each.fate for each in members]
        if any(map(has_failed, fates)):
            until = until or now + GRACE
        ended = all(each.ended for each in members)
        if ended or (until and now >= until):
            return ""
        if timeout is not None and now - start > timeout:
            return f"the processes had not ended after {timeout:g} s:"
        if idleness.is_long(sum(each.used() for each in members)):
            return f"no process has used the CPU for {seconds:g} s:"


def _ask(members: Sequence[Member]) -> None:
    """Have those that are left write down where they are."""
    left = [each for each in members if each.fate is None]
    for each in left:
        each.ask()
    until = time.monotonic() + ANSWER
    while left and time.monotonic() < until:
        left = [each for each in left if not each.has_answered()]
        time.sleep(PAUSE / 2)
