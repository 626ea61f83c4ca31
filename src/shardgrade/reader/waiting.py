"""Say what a command waits for, on a terminal and elsewhere."""

import threading
import time

from rich.console import Console
from rich.text import Text

# After how many seconds there is another line, where there is no terminal.
PAUSE = 15


class Waiting:
    """Says what a command waits for, as long as it does.

    A terminal always shows it. Elsewhere, whoever waits is told now and
    then, in a line.

    Args:
        console: Where to say it.
        words: What the command does: ``"Grading"``.
    """

    def __init__(self, console: Console, words: str) -> None:
        self._console, self._words = console, words
        self._status = console.status(f"{words} ...")
        self._ended = threading.Event()

    def __enter__(self) -> "Waiting":
        """Begin to say it."""
        self._status.start()
        if not self._console.is_terminal:
            threading.Thread(target=self._repeat, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._status.stop()

    def update(self, words: str) -> None:
        """Say something else from now on."""
        self._words = words
        self._status.update(Text(f"{words} ..."))

    def _repeat(self) -> None:
        start = time.monotonic()
        while not self._ended.wait(PAUSE):
            seconds = time.monotonic() - start
            words = f"{self._words}, for {seconds:.0f} s so far ..."
            self._console.print(words, markup=False, soft_wrap=True)
