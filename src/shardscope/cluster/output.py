"""Pass on what several processes print, each line with its process."""

import os
import re
from typing import TextIO

# How many bytes are read at once.
CHUNK = 2**16
# What gloo prints of connections, from several threads at once, so that
# the pieces of several messages mix; and what jax.distributed prints when
# another process is gone, of which the message at the end says more.
BEGIN = b"[Gloo] Rank "
PIECES = (
    rb"\[Gloo\] Rank | is connected to | peer ranks\. "
    rb"|Expected number of connected peer ranks is : "
)
GLOO = re.compile(
    rb"(^\d+(?= is connected| peer ranks))?((%b)\d*)+" % PIECES
)
LOST = re.compile(
    rb"[IWEF]\d{4} .*(coordination|distributed|client\.h|preemption_sync)"
    rb"|=== Source Loc|external/xla|RPC: /xla|Additional GRPC|\*\*\* Check"
    rb"|:(UNAVAILABLE|UNKNOWN):"
    rb"| +@ +0x|\. This is only exp|The tasks have crashed|Stack trace:"
)


class Lines:
    """The lines that a process prints to one of its two outputs.

    Args:
        file: The file descriptor of our end of the pipe.
        before: What to put before each line.
        out: Where to print the lines.
    """

    def __init__(self, file: int, before: str, out: TextIO) -> None:
        self.file = file
        self._before = before
        self._out = out
        self._rest = b""
        self._left_out = False
        # How many messages of gloo have begun, and not ended.
        self._begun = 0
        os.set_blocking(file, False)

    def pump(self) -> bool:
        """Pass on the lines that are there; return if more can come."""
        while True:
            try:
                read = os.read(self.file, CHUNK)
            except BlockingIOError:
                return True
            *lines, self._rest = (self._rest + read).split(b"\n")
            for line in lines:
                self._pass_on(line)
            if not read:
                return False

    def close(self) -> None:
        """Pass on a last line that has no end."""
        if self._rest:
            self._pass_on(self._rest)
        os.close(self.file)

    def _pass_on(self, line: bytes) -> None:
        kept = GLOO.sub(b"", line)
        self._begun += line.count(BEGIN)
        # Of a message torn apart, a number or nothing may be left.
        torn = self._begun and (line.isdigit() or not line)
        if torn or kept != line:
            self._begun = max(self._begun - 1, 0)
        # An empty line may separate two that are left out.
        noise = LOST.match(line) or torn or (kept != line and not kept)
        if not noise and (line or not self._left_out):
            words = kept.decode("utf-8", "replace")
            print(f"{self._before}{words}", file=self._out, flush=True)
        self._left_out = bool(noise)
