"""The command line: list, start, check, watch, solution."""

import difflib
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from rich.console import Console
from rich.table import Table

from shardbook.grading import attempt_files
from shardbook.grading.sandbox import MEGABYTES, SECONDS, Sandbox
from shardbook.grading.verdict import Verdict, verdicts_of
from shardbook.problems import NAMES

app = typer.Typer(
    help="Attempt the problems of Shardbook, and be graded on 8 devices.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
OUTPUT = Console(highlight=False)
ERRORS = Console(stderr=True, highlight=False)


class Attempt(NamedTuple):
    """A file, and the problem that it is for."""

    problem: str
    path: Path


def _say(console: Console, message: str) -> None:
    console.print(message, markup=False, soft_wrap=True)


def _fail(message: str) -> typer.Exit:
    """Say why a command can't do its work, and return what ends it."""
    _say(ERRORS, message)
    return typer.Exit(2)


def _complete(incomplete: str) -> list[str]:
    return [name for name in NAMES if name.startswith(incomplete)]


def _problem(name: str) -> str:
    """Accept the name of a problem."""
    if name in NAMES:
        return name
    near = difflib.get_close_matches(name, NAMES, n=1)
    guess = f" Did you mean {near[0]}?" if near else ""
    raise typer.BadParameter(
        f"Unknown problem {name!r}.{guess} Choose one of: "
        f"{', '.join(NAMES)}"
    )


def _attempt(given: str) -> Attempt:
    """Accept the name of a problem, or a file with an attempt at one."""
    if given in NAMES:
        path = attempt_files.FOLDER / f"{given}.py"
        if not os.path.lexists(path):
            raise typer.BadParameter(
                f"There is no {path}. To begin: shardbook start {given}"
            )
        return Attempt(given, path)
    path = Path(given)
    if not os.path.lexists(path):
        if path.suffix != ".py" and os.sep not in given:
            _problem(given)
        raise typer.BadParameter(f"There is no file {given}")
    problem = attempt_files.problem_of(path)
    if problem is None:
        raise typer.BadParameter(
            f"Can't tell which problem {given} is for: neither its name "
            f"nor a function in it is one of {', '.join(NAMES)}"
        )
    return Attempt(problem, path)


Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="A problem, as 'shardbook list' shows it.",
        parser=_problem,
        autocompletion=_complete,
    ),
]
Files = Annotated[
    list[Attempt] | None,
    typer.Argument(
        metavar="NAME|FILE",
        help="Problems or files. Without any, all of attempts/.",
        parser=_attempt,
        autocompletion=_complete,
    ),
]
Seconds = Annotated[
    float,
    typer.Option(min=0.1, help="How many seconds an attempt may take."),
]
Megabytes = Annotated[
    int,
    typer.Option(
        min=64, help="How many MiB of memory an attempt may ask for."
    ),
]


@app.command("list")
def list_() -> None:
    """Show the problems in order, and which are solved here."""
    table = Table(box=None, pad_edge=False)
    for heading in ("", "problem", "difficulty", "what you will see"):
        table.add_column(heading, no_wrap=heading == "problem")
    marks = {path.stem: "begun" for path in attempt_files.started()}
    marks |= dict.fromkeys(attempt_files.solved(), "solved")
    for name in NAMES:
        about = attempt_files.about(name)
        table.add_row(
            marks.get(name), name, about["difficulty"], about["summary"]
        )
    OUTPUT.print(table)


@app.command()
def start(name: Name) -> None:
    """Write attempts/NAME.py, for you to complete."""
    try:
        path = attempt_files.start(name)
    except FileExistsError as error:
        _say(
            ERRORS,
            f"{error.filename} exists, and is left as it is. "
            "Rename it to start again.",
        )
        raise typer.Exit(1) from None
    except OSError as error:
        raise _fail(
            f"Can't write {error.filename}: {error.strerror}"
        ) from None
    _say(
        OUTPUT,
        f"Wrote {path}. Replace its last line by your code,\n"
        f"then: shardbook check {name}",
    )


@app.command()
def solution(name: Name) -> None:
    """Show the solution."""
    print(attempt_files.solution(name), end="")


def _all_started() -> list[Attempt]:
    paths = list(attempt_files.started())
    if not paths:
        raise _fail(
            f"There is no attempt in {attempt_files.FOLDER}/. "
            "To begin: shardbook start NAME"
        )
    return [Attempt(path.stem, path) for path in paths]


@contextmanager
def _sandbox() -> Iterator[Sandbox]:
    """Give a sandbox to grade in; if there can't be one, say why."""
    try:
        with Sandbox() as sandbox:
            yield sandbox
    except BrokenPipeError:
        # No one reads on, and that is fine.
        raise
    except OSError as error:
        raise _fail(f"Can't grade: {error}") from None


def _grade(
    sandbox: Sandbox,
    attempts: Sequence[Attempt],
    seconds: float,
    megabytes: int,
    *,
    again: bool = False,
) -> Iterator[Verdict]:
    """Grade attempts, and remember which are right."""
    verdicts = verdicts_of(
        sandbox,
        [
            (problem, "file", str(path.absolute()), str(path))
            for problem, path in attempts
        ],
        seconds=seconds,
        megabytes=megabytes,
        again=again,
    )
    for (_, path), verdict in zip(attempts, verdicts, strict=True):
        if verdict.right:
            try:
                attempt_files.note_solved(path)
            except OSError as error:
                _say(
                    ERRORS,
                    f"Can't note in {attempt_files.FOLDER} what is solved: "
                    f"{error.strerror}",
                )
        yield verdict


def _show(verdict: Verdict) -> None:
    # Not cropped: a call can be wider, and must be whole to be copied.
    OUTPUT.print(verdict, crop=False)
    if verdict.right and verdict.problem != NAMES[-1]:
        following = NAMES[NAMES.index(verdict.problem) + 1]
        _say(OUTPUT, f"  next: shardbook start {following}")


@app.command()
def check(
    files: Files = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the verdicts as JSON.")
    ] = False,
    seconds: Seconds = SECONDS,
    megabytes: Megabytes = MEGABYTES,
) -> None:
    """Grade attempts. The exit status is 0 if all are right, else 1."""
    attempts = files or _all_started()
    found: list[Verdict] = []
    with ERRORS.status("Grading ...") as waiting, _sandbox() as sandbox:
        for verdict in _grade(sandbox, attempts, seconds, megabytes):
            found.append(verdict)
            if not as_json:
                # The line that waits must not be in the way.
                waiting.stop()
                _show(verdict)
            waiting.update(f"Graded {len(found)} of {len(attempts)} ...")
            waiting.start()
    right = sum(verdict.right for verdict in found)
    if as_json:
        print(json.dumps([each.as_json() for each in found], indent=2))
    elif len(found) > 1:
        OUTPUT.print(f"{right} of {len(found)} are right.")
    raise typer.Exit(0 if right == len(found) else 1)


@app.command()
def watch(
    files: Files = None,
    seconds: Seconds = SECONDS,
    megabytes: Megabytes = MEGABYTES,
) -> None:
    """Grade attempts each time they are saved, until Ctrl-C."""
    from watchfiles import watch as changes

    watched = {
        attempt.path.absolute(): attempt
        for attempt in files or _all_started()
    }
    saves = changes(
        *{path.parent for path in watched},
        debounce=50,
        step=20,
        recursive=False,
        rust_timeout=100,
        yield_on_timeout=True,
    )
    # The first round sets the watch up: what is saved from here on counts.
    next(saves)
    with _sandbox() as sandbox:

        def grade(attempts: Sequence[Attempt]) -> None:
            for verdict in _grade(
                sandbox, attempts, seconds, megabytes, again=True
            ):
                _show(verdict)

        grade(list(watched.values()))
        OUTPUT.print("Waiting for a save. Ctrl-C ends.")
        for events in saves:
            saved = {Path(path).absolute() for _, path in events}
            grade([watched[path] for path in watched if path in saved])


def main() -> None:
    """Run the command line."""
    app()
