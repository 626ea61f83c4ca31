"""Grade an attempt each time it is saved, and take keys meanwhile."""

import os
import select
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console, RenderableType
from rich.text import Text
from watchfiles import watch as changes

from shardbook.problems import NAMES
from shardgrade.grading.show import visible
from shardgrade.grading.verdict import Verdict
from shardgrade.jobs.job import Job, start, verdict_of
from shardgrade.jobs.sandbox import Sandbox
from shardgrade.reader import attempt_files

# How often saves begin the grading again, before it goes on to its end.
AGAIN = 5


@dataclass
class Watch:
    """What is on the screen, and what changes it.

    Attributes:
        console: Where to show it.
        path: The attempt to begin with.
        sandbox: Where to grade.
        job: Makes the job for an attempt at a problem.
        note: Notes that an attempt is right, if it is.
        shows: What keys show of a problem and its file.
        again: How many saves have come since the last verdict.
    """

    console: Console
    path: Path
    sandbox: Sandbox
    job: Callable[[str, Path], Job]
    note: Callable[[Verdict, Path], None]
    shows: dict[str, Callable[[str, Path], RenderableType]]
    last: str = NAMES[0]
    verdict: Verdict | None = None
    below: RenderableType = ""
    changed: bool = False
    ended: bool = False
    again: int = 0
    time: str = ""

    @property
    def problem(self) -> str:
        """The problem of the attempt; of a broken file, the last one."""
        self.last = attempt_files.problem_of(self.path) or self.last
        return self.last

    def run(self) -> None:
        """Grade on each save, until q or Ctrl-C."""
        attempt_files.FOLDER.mkdir(exist_ok=True)
        self.saves = changes(
            attempt_files.FOLDER,
            self.path.parent,
            debounce=50,
            step=10,
            recursive=False,
            rust_timeout=40,
            yield_on_timeout=True,
        )
        # The first sets the watch up: what is saved from here on counts.
        next(self.saves)
        with _keys() as self.pressed:
            while not self.ended:
                if self.verdict:
                    self.again = 0
                self.changed, self.verdict, self.below = False, None, ""
                self.time = time.strftime("%H:%M:%S")
                self.show()
                if os.path.lexists(self.path):
                    self.grade()
                while not self.changed:
                    self.take()

    def grade(self) -> None:
        """Grade the attempt, until something changes.

        After a few changes it is graded to its end, for a file that
        changes itself would never be.
        """
        path = self.path
        job = self.job(self.problem, path)
        with (
            start(self.sandbox, job) as running,
            self.console.status("loading") as line,
        ):

            def told(words: str) -> None:
                line.update(Text(f"{visible(words)} ..."))

            while not (outcome := running.wait(0.1, told)):
                self.take()
                same = path == self.path and not self.ended
                if self.changed and not (same and self.again == AGAIN):
                    self.again = self.again + 1 if same else 0
                    return
        if self.again == AGAIN:
            # What it wrote last is no save of the reader, and comes late.
            for _ in range(5):
                self.take()
            self.changed = self.ended or path != self.path
        self.verdict = verdict_of(job, outcome)
        self.note(self.verdict, path)
        self.time = time.strftime("%H:%M:%S")
        self.show()

    def take(self) -> None:
        """Take the keys that were pressed, and what was saved."""
        for key in self.pressed():
            if key == "q":
                self.changed = self.ended = True
            elif key == "n":
                self.move_on()
            elif key == "v" and self.below:
                self.below = ""
                self.show()
            elif key in self.offered():
                self.below = self.shows[key](self.problem, self.path)
                self.show()
        saved = {Path(path) for _, path in next(self.saves)}
        if self.path.absolute() not in saved:
            for path in map(attempt_files.path_of, NAMES):
                if path.absolute() in saved:
                    self.path = path
        # Another module is one that the attempt may import.
        self.changed |= any(path.suffix == ".py" for path in saved)

    def offered(self) -> set[str]:
        """Give the keys that show something now.

        The solution is for those who have solved the problem.
        """
        right = self.verdict and self.verdict.right
        return {key for key in self.shows if right or key != "c"}

    def move_on(self) -> None:
        """Turn to the next problem that is not solved, and start it."""
        place = NAMES.index(self.problem) + os.path.lexists(self.path)
        unsolved = attempt_files.unsolved()
        for name in (*NAMES[place:], *NAMES[:place]):
            if name in unsolved:
                self.path = attempt_files.path_of(name)
                if not os.path.lexists(self.path):
                    attempt_files.start(name)
                self.changed = True
                break

    def show(self) -> None:
        """Show the verdict, or what is graded, and what a key gives."""
        say, left = self.console.print, len(attempt_files.unsolved())
        exists, path = os.path.lexists(self.path), visible(str(self.path))
        if self.console.is_terminal:
            self.console.clear()
        if self.verdict:
            solved = f"{len(NAMES) - left} of {len(NAMES)} solved"
            say(f"Graded at {self.time}, {solved}", style="dim")
            say(self.verdict, crop=False)
            if self.again == AGAIN:
                say(
                    f"{path} changes while it is graded: does it change "
                    "itself? This verdict is on the text that was read "
                    "last. To have it graded as it is now, save it.",
                    style="yellow",
                    markup=False,
                )
        elif exists:
            say(f"Grading {path} since {self.time} ...", markup=False)
            if self.again:
                say("A save meanwhile began it again.", style="dim")
        else:
            say(f"There is no {path}. Key n starts it.", markup=False)
        if self.below:
            say()
            say(self.below)
        if self.verdict or not exists:
            if not left:
                say(f"\n{attempt_files.ALL_SOLVED}", style="bold")
            keys = " Ctrl-C ends."
            if sys.stdin.isatty():
                more = "v verdict, " if self.below and self.verdict else ""
                more += "c compare, " if "c" in self.offered() else ""
                keys = f"\nKeys: {more}h hint, n next, l list, q quit"
            say(f"\nWaiting for a save.{keys}", style="dim")


@contextmanager
def _keys() -> Iterator[Callable[[], str]]:
    """Give what returns the keys that were pressed, without waiting."""
    if not sys.stdin.isatty():
        yield lambda: ""
        return
    import termios
    import tty

    def pressed() -> str:
        ready, _, _ = select.select([sys.stdin], [], [], 0)
        return os.read(0, 64).decode("ascii", "ignore") if ready else ""

    before = termios.tcgetattr(0)
    tty.setcbreak(0)
    try:
        yield pressed
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)
