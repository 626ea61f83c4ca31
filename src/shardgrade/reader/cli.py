"""The command line: what readers do with the problems.

It answers at once: what only some commands need, these import.
"""

import json
import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import zip_longest
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console, RenderableType
from rich.text import Text

from shardbook import book
from shardbook.messages import cleaned
from shardbook.problems import NAMES, PARTS
from shardgrade.grading.show import COLORS, visible
from shardgrade.grading.verdict import Verdict
from shardgrade.jobs.limits import MEGABYTES, SECONDS, Limits
from shardgrade.reader import attempt_files
from shardgrade.reader.waiting import Waiting

if TYPE_CHECKING:
    from shardgrade.jobs.job import Job
    from shardgrade.jobs.sandbox import Sandbox

app = typer.Typer(
    help="Attempt the problems of Shardbook, and be graded on 8 devices. "
    "Compare saved programs and layouts, and explain errors.",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
# What a change of a program or layout looks like.
CHANGES = {"new": "red", "grown": "red", "changed": "yellow"}
PIPED: Any = "-"
OUTPUT = Console(highlight=False)
ERRORS = Console(stderr=True, highlight=False)


def _say(console: Console, words: RenderableType) -> None:
    # A terminal would break lines within words; a program wants them whole.
    console.print(words, markup=False, soft_wrap=not console.is_terminal)


def _fail(message: str, status: int = 2) -> typer.Exit:
    """Say why a command can't do its work, and return what ends it."""
    _say(ERRORS, message)
    return typer.Exit(status)


def _fail_at(verb: str, error: OSError) -> typer.Exit:
    """Say which file can't be read or written."""
    return _fail(f"Can't {verb} {error.filename}: {error.strerror}")


def _complete(incomplete: str) -> list[str]:
    return [name for name in NAMES if name.startswith(incomplete)]


def _problem(given: str) -> str:
    """Accept the name of a problem, a clear part of it, or its number."""
    if given.isdecimal() and 0 < int(given) <= len(NAMES):
        return NAMES[int(given) - 1]
    part = given.lower().replace("-", "_")
    found = _complete(part) or [name for name in NAMES if part in name]
    if part in NAMES or len(found) == 1:
        return part if part in NAMES else found[0]
    if found:
        raise typer.BadParameter(
            f"{given!r} is ambiguous: it can be {' or '.join(found)}"
        )
    import difflib

    near = difflib.get_close_matches(given, NAMES, n=1)
    guess = f" Did you mean {near[0]}?" if near else ""
    raise typer.BadParameter(
        f"Unknown problem {given!r}.{guess} All names: shardbook list"
    )


def _is_file(given: str) -> bool:
    path = Path(given)
    there = os.path.lexists(path) and not path.is_dir()
    return given not in NAMES and (there or path.suffix == ".py")


def _attempts(
    given: list[str], command: str = "check"
) -> list[tuple[str, Path]]:
    """Find each attempt and its problem: by name, by file, or by both.

    A file may come after the name of its problem, and has to if it does
    not tell which problem it is for.
    """
    attempts: list[tuple[str, Path]] = []
    rest = [*given]
    while rest:
        name = "" if _is_file(rest[0]) else _problem(rest.pop(0))
        file = Path(rest[0]) if rest and _is_file(rest[0]) else None
        if file and not os.path.lexists(file):
            raise typer.BadParameter(f"There is no file {file}")
        told = file and attempt_files.problem_of(file)
        if file and (not name or told in (name, None)):
            name, path = told or name, file
            rest.pop(0)
        else:
            path = attempt_files.path_of(name)
        if not name:
            raise typer.BadParameter(
                f"Can't tell which problem {file} is for: it is not named "
                "after one, and is not Python with the function of one. "
                f"Name it first: shardbook {command} NAME "
                f"{shlex.quote(str(file))}"
            )
        if not os.path.lexists(path):
            other = f" ({file} is for {told})" if file else ""
            raise typer.BadParameter(
                f"There is no {path}{other}. "
                f"To begin: shardbook start {name}"
            )
        attempts.append((name, path))
    return attempts


def _limit(seconds: float) -> float:
    try:
        return Limits(seconds).seconds
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


_name = partial(
    typer.Argument,
    metavar="NAME",
    parser=_problem,
    autocompletion=_complete,
)
Name = Annotated[
    str,
    _name(help="A problem: its name, a clear part of it, or its number."),
]
Unsolved = Annotated[
    str | None, _name(help="A problem. Without one: the next to solve.")
]
_file = partial(
    typer.Argument,
    metavar="NAME|FILE",
    autocompletion=_complete,
)
BEGUN = _file(
    help="A problem, a file, or a problem and its file. "
    "Without any: those that are begun."
)
NEXT = _file(help="A problem or a file. Without one: the next to solve.")
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Don't ask first.")]
Seconds = Annotated[
    float,
    typer.Option(
        callback=_limit,
        help="How many seconds of CPU time an attempt may use, at most a "
        "day. One that hardly uses the CPU for as long is ended too.",
    ),
]
Megabytes = Annotated[
    int,
    typer.Option(
        min=64, help="How many MiB of memory an attempt may ask for."
    ),
]


@app.callback(invoke_without_command=True)
def _options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.")
    ] = False,
) -> None:
    if version:
        from importlib.metadata import version as version_of

        print(f"shardbook {version_of('shardbook')}")
        raise typer.Exit
    if not context.invoked_subcommand:
        _say(OUTPUT, _where())
        _say(OUTPUT, "All commands: shardbook --help")


def _next() -> str:
    """Say which problem is next, and how to go on with it."""
    for name in attempt_files.unsolved():
        begun = os.path.lexists(attempt_files.path_of(name))
        return f"next: shardbook {'watch' if begun else 'start'} {name}"
    return attempt_files.ALL_SOLVED


def _where() -> Text:
    """Say how much is solved, with a bar that has a cell a problem."""
    solved, begun, left = "#+-" if OUTPUT.options.ascii_only else "█▒░"
    cells = {"": (left, "dim"), "begun": (begun, "yellow")}
    text = Text()
    for name in NAMES:
        text.append(
            *cells.get(attempt_files.state(name), (solved, "green"))
        )
    count = len(attempt_files.solved())
    return text.append(f"  {count} of {len(NAMES)} solved\n{_next()}")


def _listing() -> Text:
    """List the problems in order, with what is done and what is next."""
    text = Text()
    heads = {names[0]: f"{part}: " for part, names in PARTS.items()}
    width = max(map(len, NAMES))
    for number, name in enumerate(NAMES, 1):
        about, state = book.about(name), attempt_files.state(name)
        # A line each, so that all are in sight: no line has room for both.
        left = state or about["time"].replace("minutes", "min")
        text.append(f"{number:2} {name:{width}} ", "bold")
        text.append(f"{left:6} ", "green" if state else "")
        text.append(f"{about['difficulty']:6} ")
        part, room = heads.get(name, ""), OUTPUT.width - width - 18
        title = f"{part}{about['title']}"
        if OUTPUT.is_terminal:
            title = shorten(
                title, room, placeholder=" …", break_on_hyphens=False
            )
        text.append(title[: len(part)], "underline")
        text.append(f"{title[len(part) :]}\n")
    return text.append(_where())


@app.command("list")
def list_() -> None:
    """Show the problems in order, which are solved, and what is next.

    What is solved is noted in attempts/ of this folder, but
    shardgrade.check, in a notebook, notes nothing. A problem is "edited"
    if its file has changed since it was right.
    """
    _say(OUTPUT, _listing())


@app.command()
def start(name: Unsolved = None) -> None:
    """Write attempts/NAME.py, for you to complete."""
    if not name:
        name = next(iter(attempt_files.unsolved()), None)
        if not name or os.path.lexists(attempt_files.path_of(name)):
            _say(OUTPUT, _next())
            return
    try:
        path = attempt_files.start(name)
    except FileExistsError as error:
        raise _fail(
            f"{error.filename} exists, and is left as it is. "
            f"To begin again: shardbook reset {name}",
            status=1,
        ) from None
    except OSError as error:
        raise _fail_at("write", error) from None
    _say(
        OUTPUT,
        f"Wrote {path}. Complete the function, then run:\n"
        f"shardbook check {name}\n"
        f"To read the problem: shardbook open {name}\n"
        f"For a hint: shardbook hint {name}",
    )


def _agree(about: str, question: str, otherwise: str, command: str) -> None:
    """Ask on a terminal, and end here unless the reader agrees."""
    if not sys.stdin.isatty():
        raise _fail(
            f"{otherwise}, because there is no terminal to ask on. "
            f"To do it unasked: shardbook {command} --yes"
        )
    _say(OUTPUT, about)
    if not typer.confirm(question):
        raise _fail(f"{otherwise}.", status=1)


@app.command()
def reset(name: Name, yes: Yes = False) -> None:
    """Begin again with the starter, and keep a backup of the attempt."""
    path = attempt_files.path_of(name)
    if not os.path.lexists(path):
        raise _fail(f"There is no {path}. To begin: shardbook start {name}")
    if not yes:
        _agree(
            f"The starter replaces {path}, and a backup is kept.",
            "Begin again?",
            f"{path} is left as it is",
            f"reset {name}",
        )
    try:
        backup = attempt_files.reset(name)
    except OSError as error:
        raise _fail_at("write", error) from None
    _say(OUTPUT, f"Wrote {path}. What it was is in {backup}.")


def _compare(name: str, path: Path) -> Text:
    """Compare an attempt with the solution, line by line."""
    import difflib

    texts = path.read_text("utf-8", "replace"), attempt_files.solution(name)
    mine, ours = (
        each.replace(attempt_files.MARK, "").splitlines() for each in texts
    )
    lines = difflib.unified_diff(
        mine, ours, str(path), "the solution", lineterm=""
    )
    text = Text()
    for line in map(visible, lines):
        text.append(f"{line}\n", COLORS.get(line[0], ""))
    text.rstrip()
    return text if text else Text(f"{path} is the solution.")


@app.command()
def compare(
    given: Annotated[list[str], _file(help="A problem and its file.")],
    yes: Yes = False,
) -> None:
    """Compare attempts with the solutions, line by line."""
    for name, path in _attempts(given, "compare"):
        try:
            text = path.read_text("utf-8", "replace")
        except OSError as error:
            raise _fail_at("read", error) from None
        if text == attempt_files.starter(name) and not yes:
            _agree(
                f"{path} is the starter as it was, so you would see the "
                "whole solution.",
                "Show it?",
                "The solution is not shown",
                shlex.join(["compare", *given]),
            )
        _say(OUTPUT, _compare(name, path))


@app.command()
def solution(name: Name) -> None:
    """Show the solution."""
    print(attempt_files.solution(name), end="")


def _markdown(text: str) -> RenderableType:
    """Show Markdown on a terminal, and leave it as it is elsewhere."""
    if OUTPUT.is_terminal:
        from rich.markdown import Markdown, TableDataElement

        class Cell(TableDataElement):
            """A cell of a table that loses nothing, however narrow."""

            def on_text(self, context: Any, text: Any) -> None:
                super().on_text(context, text)
                self.content.overflow = "fold"

        class Page(Markdown):
            """Markdown with such cells."""

            elements = {**Markdown.elements, "td_open": Cell}  # noqa: RUF012

        return Page(text, code_theme="ansi_dark")
    return Text(text)


def _hint(name: str) -> RenderableType:
    """Give one hint more than the last time, and say when none is left."""
    hints = book.hints(name)
    try:
        number = attempt_files.next_hint(name, len(hints) + 1)
    except OSError as error:
        return Text(f"Can't note which hint is next: {error.strerror}")
    if number == len(hints):
        return _markdown(
            "There are no more hints; the next will be the first again.\n\n"
            f"The solution: `shardbook solution {name}`"
        )
    title, words = hints[number]
    return _markdown(
        f"**Hint {number + 1} of {len(hints)}: {title}**\n\n{words}"
    )


@app.command()
def hint(name: Name) -> None:
    """Show a hint, each time the next one."""
    _say(OUTPUT, _hint(name))


@app.command("open")
def open_(name: Name) -> None:
    """Read the page of a problem: in a browser, else in a pager.

    The page then marks as solved what is solved here.
    """
    import pydoc
    import webbrowser

    address = book.address(name)
    if address:
        _say(OUTPUT, address)
    # After the "#", which stays in the browser: no server's log has it.
    solved = ",".join(attempt_files.solved())
    marked = f"{address}#solved={solved}" if solved else address
    if not (address and webbrowser.open(marked)):
        os.environ.setdefault("LESS", "-R")
        with OUTPUT.capture() as page:
            _say(OUTPUT, _markdown(book.statement(name)))
        pydoc.pager(page.get())


@app.command()
def explain(
    log: Annotated[
        typer.FileBinaryRead,
        typer.Argument(metavar="FILE", help="A log, or - if piped."),
    ] = PIPED,
) -> None:
    """Explain an error: python train.py 2>&1 | shardbook explain.

    It shows your own line in the traceback, and the section of the guide
    on the last message that has one. The exit status is 1 if none has.
    """
    from shardgrade.reader.own_line import own_line

    # Of a long log, the end.
    read = b"" if log.isatty() else log.read()[-2_000_000:]
    text = read.decode("utf-8", "replace")
    if not text.strip():
        how = "python train.py 2>&1 | shardbook explain"
        raise _fail(f"There is nothing to explain. Name a log, or: {how}")
    sections = book.sections_on(text)
    before = next(iter(sections.values()), next(cleaned(text)))
    if line := own_line(before):
        _say(OUTPUT, Text(f"{visible(line)}\n", "bold"))
    if not sections:
        search = book.address_of("search.html")
        how = f" Search the book: {search}" * bool(search)
        raise _fail(f"No section explains it.{how}", 1)
    first, *others = sections
    _say(OUTPUT, _markdown(book.readable(f"## {first.text}").strip()))
    if address := book.address("", book.GUIDE + first.title):
        top = "What the code doesn't define is at the top of its page:"
        _say(OUTPUT, f"\n{top} {address}")
    for each in others:
        _say(OUTPUT, f"Also explained, earlier in the text: {each.title}")


@contextmanager
def _sandbox() -> "Iterator[Sandbox]":
    """Open a sandbox, and say why if nothing can be graded in one."""
    from shardgrade.jobs.job import open_sandbox

    try:
        with open_sandbox() as sandbox:
            yield sandbox
    except BrokenPipeError:
        # No one reads on, and that is fine.
        raise
    except (ImportError, OSError) as error:
        raise _fail(f"Can't grade: {error}") from None


def _job(limits: Limits, name: str, path: Path) -> "Job":
    from shardgrade.jobs.job import Job

    return Job(name, str(path), path.absolute(), limits)


def _note(verdict: Verdict, path: Path) -> None:
    """Note a problem as solved, if it is."""
    try:
        if verdict.right:
            attempt_files.note_solved(verdict.problem, path)
    except OSError as error:
        words = f"what is solved: {error.strerror}"
        _say(ERRORS, f"Can't note in {attempt_files.FOLDER} {words}")


@app.command()
def check(
    given: Annotated[list[str] | None, BEGUN] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the verdicts as JSON.")
    ] = False,
    seconds: Seconds = SECONDS,
    megabytes: Megabytes = MEGABYTES,
) -> None:
    """Grade attempts. The exit status is 0 if all are right, 1 if not.

    A verdict tells you whether your function does what the problem asks.
    It does not protect against an attempt written to deceive the grader.
    """
    from shardgrade.jobs.job import verdicts_of

    attempts = _attempts(given or []) or [
        (path.stem, path) for path in attempt_files.started()
    ]
    if not attempts:
        raise _fail(
            f"There is no attempt in {attempt_files.FOLDER}/. "
            "To begin: shardbook start NAME"
        )
    limits = Limits(seconds, megabytes)
    jobs = [_job(limits, *attempt) for attempt in attempts]
    found: list[Verdict] = []
    # On the console of the verdicts, which then leave room for it.
    console = OUTPUT if OUTPUT.is_terminal else ERRORS
    with Waiting(console, "Grading") as waiting, _sandbox() as sandbox:

        def told(words: str) -> None:
            # Of several at a time, no one could tell which it is about.
            if len(attempts) == 1:
                waiting.update(f"Grading, {visible(words)}")

        verdicts = verdicts_of(sandbox, jobs, told)
        for (_, path), verdict in zip(attempts, verdicts, strict=True):
            _note(verdict, path)
            found.append(verdict)
            if not as_json:
                # Not cropped: a call can be wider, and is to be copied.
                OUTPUT.print(verdict, crop=False)
            waiting.update(f"Graded {len(found)} of {len(attempts)}")
    right = sum(verdict.right for verdict in found)
    if as_json:
        print(json.dumps([each.as_json() for each in found], indent=2))
    else:
        if len(found) > 1:
            OUTPUT.print(f"{right} of {len(found)} are right.")
        if right:
            if len(found) == 1:
                ((name, path),) = attempts
                usual = path == attempt_files.path_of(name)
                file = "" if usual else f" {shlex.quote(str(path))}"
                words = f"compare: shardbook compare {name}{file}"
                # The terminal breaks the line, and copies it whole.
                OUTPUT.print(words, markup=False, soft_wrap=True)
            _say(OUTPUT, _next())
    raise typer.Exit(0 if right == len(found) else 1)


@app.command()
def watch(
    given: Annotated[str | None, NEXT] = None,
    seconds: Seconds = SECONDS,
    megabytes: Megabytes = MEGABYTES,
) -> None:
    """Grade an attempt each time it is saved. Keys are shown below it."""
    from shardgrade.reader.watch import Watch

    if given:
        ((_, path),) = _attempts([given])
    else:
        names = attempt_files.unsolved() or NAMES
        paths = [*map(attempt_files.path_of, names)]
        path = next(filter(os.path.lexists, paths), paths[0])
    keys = {
        "c": _compare,
        "h": lambda name, _: _hint(name),
        "l": lambda *_: _listing(),
    }
    job = partial(_job, Limits(seconds, megabytes))
    with _sandbox() as sandbox:
        Watch(OUTPUT, path, sandbox, job, _note, keys).run()


@app.command()
def diff(
    before: Annotated[
        Path, typer.Argument(metavar="A.json", help="The earlier file.")
    ],
    after: Annotated[
        Path, typer.Argument(metavar="B.json", help="The later file.")
    ],
    tolerance: Annotated[
        float,
        typer.Option(
            min=0, help="By how much bytes may differ: 0.02 is 2 percent."
        ),
    ] = 0,
) -> None:
    """Compare two files that Program.save or TreeLayout.save wrote.

    Both are from the same method. The exit status is 0 for no difference,
    1 for any, 2 if the files can't be compared.
    """
    from shardscope.compare.diff import difference_of_files

    if str(before) in NAMES and not before.exists():
        raise _fail(
            "To compare an attempt with the solution: "
            f"shardbook compare {before} {shlex.quote(str(after))}"
        )
    try:
        found = difference_of_files(before, after, tolerance)
    except OSError as error:
        raise _fail_at("read", error) from None
    except ValueError as error:
        raise _fail(str(error)) from None
    # Below the changes come notes.
    for each, line in zip_longest(found.changes, found.lines()):
        text = Text(visible(line))
        if each:
            style = CHANGES.get(each.change, "green")
            # What is no longer donated needs memory.
            if each.part == "donation":
                style = {"red": "green", "green": "red"}.get(style, style)
            text.stylize(style, end=len(each.change))
        _say(OUTPUT, text)
    raise typer.Exit(1 if found else 0)


def main() -> None:
    """Run the command line."""
    app()
