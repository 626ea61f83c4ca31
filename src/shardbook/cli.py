"""The command line: list, start, check, watch, solution."""

import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.syntax import Syntax
from rich.table import Table

from shardbook import attempts
from shardbook.problems import NAMES
from shardbook.verdicts import Verdict, verdicts_of
from shardbook.warm import MEGABYTES, SECONDS, Warm

app = typer.Typer(
    help="Attempt the problems of Shardbook, and be graded on 8 devices.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _console(*, error: bool = False) -> Console:
    return Console(stderr=error, highlight=False, soft_wrap=False)


def _fail(message: str) -> typer.Exit:
    """Say what is wrong with the call, and give what ends it."""
    _console(error=True).print(message, markup=False, soft_wrap=True)
    return typer.Exit(2)


def _names(incomplete: str) -> list[str]:
    return [name for name in NAMES if name.startswith(incomplete)]


def _known(name: str) -> str:
    if name not in NAMES:
        known = "\n".join(f"  {each}" for each in NAMES)
        raise _fail(f"{name!r} is no problem. There are:\n{known}")
    return name


Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="A problem.", autocompletion=_names
    ),
]
Seconds = Annotated[
    float,
    typer.Option(min=0.1, help="How long an attempt may take."),
]
Megabytes = Annotated[
    int,
    typer.Option(min=64, help="How much memory an attempt may ask for."),
]


@app.command("list")
def list_() -> None:
    """Show the problems in order, and which are solved here."""
    table = Table(box=None, pad_edge=False)
    for heading in ("", "problem", "difficulty", "what you will see"):
        table.add_column(heading, no_wrap=heading == "problem")
    done = attempts.solved()
    begun = {path.stem for path in attempts.written()}
    for name in NAMES:
        problem = attempts.problem(name)
        mark = (
            "solved" if name in done else "begun" if name in begun else ""
        )
        table.add_row(mark, name, problem.difficulty, problem.summary)
    _console().print(table)


@app.command()
def start(name: Name) -> None:
    """Write attempts/NAME.py, to be completed by you."""
    name = _known(name)
    try:
        path = attempts.start(name)
    except FileExistsError as error:
        _console(error=True).print(
            f"{error.filename} exists, and is left as it is. "
            "Rename it to start again.",
            markup=False,
        )
        raise typer.Exit(1) from None
    except OSError as error:
        raise _fail(
            f"can't write {error.filename}: {error.strerror}"
        ) from None
    _console().print(
        f"Wrote {path}. Write your code in the place of its last line,\n"
        f"then: shardbook check {name}",
        markup=False,
        soft_wrap=True,
    )


@app.command()
def solution(name: Name) -> None:
    """Show the solution."""
    text = attempts.solution(_known(name))
    console = _console()
    if console.is_terminal:
        console.print(Syntax(text, "python", theme="ansi_dark"))
    else:
        sys.stdout.write(text)


def _chosen(given: Sequence[str]) -> list[tuple[str, Path]]:
    """Turn names and files into problems and files."""
    if not given:
        paths = list(attempts.written())
        if not paths:
            raise _fail(
                f"There is no attempt in {attempts.FOLDER}/. "
                "To begin: shardbook start NAME"
            )
        return [(path.stem, path) for path in paths]
    chosen = []
    for each in given:
        if each in NAMES:
            path = attempts.FOLDER / f"{each}.py"
            if not path.exists() and not path.is_symlink():
                raise _fail(
                    f"There is no {path}. To begin: shardbook start {each}"
                )
            chosen.append((each, path))
            continue
        path = Path(each)
        looks_like_a_file = path.suffix == ".py" or os.sep in each
        if not looks_like_a_file and not path.exists():
            _known(each)
        if not path.exists() and not path.is_symlink():
            raise _fail(f"There is no file {each}")
        name = attempts.problem_of(path)
        if name is None:
            raise _fail(
                f"{each} is about no problem: neither its name nor a "
                f"function in it is one of {', '.join(NAMES)}"
            )
        chosen.append((name, path))
    return chosen


@contextmanager
def _warmed() -> Iterator[Warm]:
    """Give the process that grades; if there is none, say why."""
    try:
        with Warm() as warm:
            yield warm
    except BrokenPipeError:
        # No one reads on, and that is fine.
        raise
    except OSError as error:
        raise _fail(f"can't grade: {error}") from None


def _note_solved(paths: Iterable[Path]) -> None:
    """Remember what is right, where that is possible."""
    try:
        attempts.note_solved(paths)
    except OSError as error:
        _console(error=True).print(
            f"can't note in {attempts.FOLDER} what is solved: "
            f"{error.strerror}",
            markup=False,
        )


def _grade(
    warm: Warm,
    chosen: Sequence[tuple[str, Path]],
    **how: Any,
) -> Iterator[Verdict]:
    """Grade attempts, and give the verdicts in the order of the files."""
    jobs = [
        (name, "file", str(path.absolute()), str(path))
        for name, path in chosen
    ]
    ready: dict[int, Verdict] = {}
    upcoming = 0
    for number, verdict in verdicts_of(warm, jobs, **how):
        ready[number] = verdict
        while upcoming in ready:
            yield ready.pop(upcoming)
            upcoming += 1


def _show(console: Console, verdict: Verdict) -> None:
    console.print(verdict)
    if verdict.right and verdict.problem != NAMES[-1]:
        following = NAMES[NAMES.index(verdict.problem) + 1]
        console.print(f"  next: shardbook start {following}", markup=False)


@app.command()
def check(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME or FILE]...",
            help="What to grade. Without any, all of attempts/.",
            autocompletion=_names,
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the verdicts as JSON.")
    ] = False,
    seconds: Seconds = SECONDS,
    megabytes: Megabytes = MEGABYTES,
) -> None:
    """Grade attempts: 0 if all are right, 1 if not, 2 if called wrongly."""
    chosen = _chosen(names or [])
    found, console = [], _console()
    limits = {"seconds": seconds, "megabytes": megabytes}
    waiting = _console(error=True).status("Grading ...")
    with waiting, _warmed() as warm:
        for verdict in _grade(warm, chosen, **limits):
            found.append(verdict)
            waiting.update(f"Graded {len(found)} of {len(chosen)} ...")
            if not as_json:
                _show(console, verdict)
    _note_solved(
        path
        for (_, path), verdict in zip(chosen, found, strict=True)
        if verdict.right
    )
    right = sum(verdict.right for verdict in found)
    if as_json:
        print(json.dumps([each.as_json() for each in found], indent=2))
    elif len(found) > 1:
        console.print(f"{right} of {len(found)} are right.")
    raise typer.Exit(0 if right == len(found) else 1)


@app.command()
def watch(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME or FILE]...",
            help="What to watch. Without any, all of attempts/.",
            autocompletion=_names,
        ),
    ] = None,
    seconds: Seconds = SECONDS,
    megabytes: Megabytes = MEGABYTES,
) -> None:
    """Grade attempts each time they are saved, until Ctrl-C."""
    from watchfiles import watch as changes

    chosen = {path.absolute(): name for name, path in _chosen(names or [])}
    limits = {"seconds": seconds, "megabytes": megabytes}
    console = _console()

    def grade(paths: Sequence[Path]) -> None:
        here = Path.cwd()
        pairs = [
            (chosen[path], Path(os.path.relpath(path, here)))
            for path in paths
        ]
        for verdict, (_, path) in zip(
            _grade(warm, pairs, again=True, **limits), pairs, strict=True
        ):
            _show(console, verdict)
            if verdict.right:
                _note_solved([path])

    folders = {path.parent for path in chosen}
    saves = changes(
        *folders,
        debounce=50,
        step=20,
        recursive=False,
        rust_timeout=100,
        yield_on_timeout=True,
    )
    # The first round sets the watch up: what is saved from here on counts.
    next(saves)
    with _warmed() as warm:
        grade(list(chosen))
        console.print("Waiting for a save. Ctrl-C ends.")
        for events in saves:
            saved = {Path(path).absolute() for _, path in events}
            grade([path for path in chosen if path in saved])


def main() -> None:
    """Run the command line."""
    app()
