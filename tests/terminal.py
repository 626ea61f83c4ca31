"""A command of the package in a terminal of its own."""

import contextlib
import os
import pty
import subprocess
import sys
import threading
from pathlib import Path

COLUMNS = 60


class Terminal:
    """A ``shardbook`` that reads and writes a terminal of 60 columns.

    Args:
        folder: The folder that it works in.
        arguments: What to call it with.
    """

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.seen = ""
        self.mine, theirs = pty.openpty()
        environment = {
            **os.environ,
            "COLUMNS": str(COLUMNS),
            "TERM": "xterm",
        }
        environment.pop("NO_COLOR", None)
        self.process = subprocess.Popen(
            (sys.executable, "-P", "-m", "shardgrade", *arguments),
            cwd=folder,
            env=environment,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        # A command that says nothing more must fail, not hang.
        self.alarm = threading.Timer(180, self.process.kill)
        self.alarm.start()

    def until(self, *words: str) -> str:
        """Return what is shown until the last of some words comes."""
        start = len(self.seen)
        for each in words:
            while each not in self.seen[start:]:
                self.seen += os.read(self.mine, 4096).decode()
        return self.seen[start:]

    def press(self, keys: str) -> None:
        """Press keys."""
        os.write(self.mine, keys.encode())

    def end(self) -> int:
        """Wait for the command, and return its exit status."""
        with contextlib.suppress(OSError):
            self.until("what never comes")
        self.alarm.cancel()
        return self.process.wait(timeout=20)
