"""The command line, called as readers call it, and wrongly."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import jax
import psutil
import pytest
from terminal import COLUMNS, Terminal
from typer.testing import CliRunner

from shardbook import book
from shardbook.problems import NAMES, PARTS
from shardgrade.reader import attempt_files
from shardgrade.reader.cli import app
from shardscope import program
from shardscope.compare.files import save

Result = subprocess.CompletedProcess[str]
Run = Callable[..., Result]
NAME = "state_zero_kernel"
OTHER = "split_merge_round_trip"


def solve(folder: Path, name: str = NAME) -> Path:
    """Write a right attempt into a folder."""
    path = folder / "attempts" / f"{name}.py"
    path.parent.mkdir(exist_ok=True)
    path.write_text(attempt_files.solution(name))
    return path


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Call the command line in an empty folder."""

    def call(
        *arguments: str,
        program: Sequence[str] = ("-m", "shardgrade"),
        cwd: Path = tmp_path,
        **environment: str | None,
    ) -> Result:
        environment = {**os.environ, "COLUMNS": "80", **environment}
        return subprocess.run(
            (sys.executable, "-P", *program, *arguments),
            cwd=cwd,
            env={n: v for n, v in environment.items() if v is not None},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    return call


def test_help(run: Run) -> None:
    """Help names every command."""
    for arguments in (("--help",), ("-h",)):
        result = run(*arguments)
        for command in (
            "list",
            "start",
            "check",
            "watch",
            "hint",
            "open",
            "compare",
            "diff",
            "explain",
            "reset",
        ):
            assert f"│ {command} " in result.stdout + result.stderr
    assert run("check", "--help").returncode == 0
    assert re.fullmatch(r"shardbook \d\S+\n", run("--version").stdout)


def test_problems_are_listed_and_solutions_shown(
    run: Run, tmp_path: Path
) -> None:
    """``list`` has the order of the map, what is solved and what is next.

    A problem stays solved when its file is edited.
    """
    lines = run("list").stdout
    places = [lines.index(f"{n} {name}") for n, name in enumerate(NAMES, 1)]
    solve(tmp_path)
    progress = tmp_path / attempt_files.PROGRESS
    progress.mkdir()
    for name in NAMES[1:]:
        (progress / f"{name}.py").write_text("as it was")
    some = run("list").stdout
    (progress / f"{NAMES[0]}.py").touch()

    assert places == sorted(places)
    first = rf"^ 1 {NAMES[0]} +10 min easy +First steps: Make a mesh\n"
    assert re.match(first, lines)
    assert len(lines.splitlines()) == len(NAMES) + 2
    assert all(f" {part}: " in lines for part in PARTS)
    assert f"░  0 of {len(NAMES)} solved\nnext: " in lines
    assert re.search(rf" {NAME} +edited ", some)
    assert some.endswith(f"next: shardbook start {NAMES[0]}\n")
    assert f"All {len(NAMES)} problems are solved." in run("list").stdout
    assert run("solution", NAME).stdout == attempt_files.solution(NAME)


LOG = """\
Traceback (most recent call last):
  File "/me/train.py", line 9, in <module>
    first()
RuntimeError: Array has been deleted with shape=float32[64,256].

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/me/train.py", line 11, in <module>
    step(state, batch)
  File "/env/lib/python3.13/site-packages/jax/_src/pjit.py", line 12, in f
    raise ValueError(message)
ValueError: Received incompatible devices for jit
ted computation. Got argument a of f
"""


def test_an_error_is_explained(tmp_path: Path) -> None:
    """``explain`` begins with one's own line, and takes what is piped."""
    path = tmp_path / "train.log"
    path.write_text(LOG)
    read = CliRunner().invoke(app, ["explain", str(path)])
    piped = CliRunner().invoke(app, ["explain"], input=LOG)
    line, _, title, *_ = read.stdout.splitlines()

    assert read.exit_code == piped.exit_code == 0
    assert read.stdout == piped.stdout
    assert line == "/me/train.py:11: step(state, batch)"
    assert title.startswith("## `Received incompatible devices")
    assert "**Instead:**" in read.stdout
    assert "earlier in the text: Array has been deleted\n" in read.stdout


@pytest.mark.parametrize(
    ("shown", "line"),
    [
        (LOG.replace("/me/train.py", "/me/a\nb.py"), "/me/ab.py:11: step"),
        (
            re.sub("^", "[rank0]: ", LOG, flags=re.M),
            "/me/train.py:11: step",
        ),
        (
            "KeyError       Traceback (most recent call last)\n"
            "Cell In[3], line 2\n      1 a = 1\n----> 2 f(a)\n\n"
            "File ~/env/site-packages/flax/x.py:7, in f(a)\n"
            "----> 7     raise KeyError(a)\n\nKeyError: 1",
            "In[3]:2: f(a)",
        ),
    ],
    ids=["wrapped", "ranks", "ipython"],
)
def test_ones_own_line_is_read_as_it_was_shown(
    shown: str, line: str
) -> None:
    """Also if no section explains the error."""
    result = CliRunner().invoke(app, ["explain"], input=shown)

    assert result.stdout.startswith(line)


@pytest.mark.parametrize(
    ("arguments", "log", "status", "words"),
    [
        (["nowhere.log"], "", 2, "'nowhere.log': No such file"),
        (["."], "", 2, "'.': Is a directory"),
        ([], " \n", 2, "nothing to explain. Name a log"),
        ([], "KeyError: 'a'", 1, "No section explains it"),
    ],
)
def test_what_can_not_be_explained(
    arguments: list[str], log: str, status: int, words: str
) -> None:
    """``explain`` says why, and what to do."""
    result = CliRunner().invoke(app, ["explain", *arguments], input=log)

    assert (result.exit_code, result.stdout) == (status, "")
    assert words in result.stderr.replace("\n", " ")


@pytest.mark.parametrize("columns", [60, 100])
def test_explain_on_a_terminal(
    tmp_path: Path, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It fits, however narrow; without a file it doesn't wait for one."""
    monkeypatch.setattr("terminal.COLUMNS", columns)
    (tmp_path / "train.log").write_text(LOG)
    terminal = Terminal(tmp_path, "explain", "train.log")
    status = terminal.end()
    (tmp_path / "old.log").write_text(
        "AttributeError: module 'jax.lax' has no attribute 'pvary'"
    )
    table = Terminal(tmp_path, "explain", "old.log")
    table.end()
    without = Terminal(tmp_path, "explain")
    refused = without.end()
    lines = re.sub(r"\x1b\[[\d;?]*\w", "", terminal.seen).splitlines()

    assert (status, refused) == (0, 2)
    assert "Name a log" in without.seen
    assert "Received incompatible devices" in terminal.seen
    assert max(map(len, lines)) <= columns
    # What is too wide for a cell of a table is wrapped, not cut.
    assert "jax.experimental.s" in table.seen
    assert "…" not in table.seen


def test_hints_come_one_by_one(run: Run) -> None:
    """``hint`` gives one hint more each time, then says that is all."""
    shown = [run("hint", "state_zero").stdout for _ in range(5)]
    hints = book.hints(NAME)

    assert len({*shown[:3]}) == len(hints) == 3
    for text, (title, words) in zip(shown, hints, strict=False):
        assert f"{title}**\n\n{words}\n" in text
    assert shown[3].startswith("There are no more hints")
    assert f"shardbook solution {NAME}" in shown[3]
    assert shown[4] == shown[0]


def test_a_page_is_opened(run: Run, tmp_path: Path) -> None:
    """``open`` shows the page that was built, else the page's Markdown."""
    package = Path(book.__file__).parent
    shutil.copytree(package, tmp_path / "src" / "shardbook")
    pages = package.parents[1] / "docs" / "problems"
    shutil.copytree(pages, tmp_path / "docs" / "problems")
    there = {"PYTHONPATH": str(tmp_path / "src"), "BROWSER": "echo %s"}
    text = run("open", NAME, **there).stdout
    page = tmp_path / "docs/_build/html/problems" / f"{NAME}.html"
    page.parent.mkdir(parents=True)
    page.touch()

    assert "\n## Problem\n" in text
    assert book.hints(NAME)[0][1] not in text
    assert not re.search(r"^:::|^```\{|^- \[", text, re.M)
    predict = text.index("**Predict:** ")
    assert re.match(r".*\n\n- .+\n- .+\n", text[predict:])
    assert run("open", NAME, **there).stdout == f"{page.as_uri()}\n" * 2


def test_a_page_learns_what_is_solved(run: Run, tmp_path: Path) -> None:
    """``open`` names it in the fragment, which no server gets to see."""
    progress = tmp_path / attempt_files.PROGRESS
    progress.mkdir(parents=True)
    for name in (*NAMES[:2], "of_another_book"):
        (progress / f"{name}.py").touch()
    (progress / f"{NAMES[2]}.hints").touch()
    code = (
        "from shardbook import book\n"
        "from shardgrade.__main__ import main\n"
        "book.address = lambda name: f'https://here.invalid/{name}.html'\n"
        "main()\n"
    )
    said = run("open", NAME, program=("-c", code), BROWSER="echo %s").stdout

    address, opened = said.splitlines()
    assert address == f"https://here.invalid/{NAME}.html"
    assert opened == f"{address}#solved={NAMES[0]},{NAMES[1]}"


def test_start_writes_the_starter_and_never_overwrites(
    run: Run, tmp_path: Path
) -> None:
    """A second start leaves what the reader wrote."""
    first = run("start", NAME)
    path = tmp_path / "attempts" / f"{NAME}.py"
    text = path.read_text("utf-8")
    path.write_text("mine")
    second = run("start", NAME)

    assert first.returncode == 0
    assert f"attempts/{NAME}.py" in first.stdout
    assert text == attempt_files.starter(NAME)
    assert text.endswith("    raise NotImplementedError\n")
    assert second.returncode == 1
    assert "is left as it is" in second.stderr
    assert path.read_text() == "mine"


def test_start_alone_takes_the_next(run: Run, tmp_path: Path) -> None:
    """It writes the first that isn't solved, and leaves one begun."""
    wrote = run("start").stdout
    path = tmp_path / "attempts" / f"{NAMES[0]}.py"
    path.write_text("mine")
    begun = run("start")
    progress = tmp_path / attempt_files.PROGRESS
    progress.mkdir()
    (progress / f"{NAMES[0]}.py").touch()
    second = run("start").stdout
    for name in NAMES:
        (progress / f"{name}.py").touch()

    assert wrote.startswith(f"Wrote attempts/{NAMES[0]}.py")
    assert begun.returncode == 0
    assert begun.stdout == f"next: shardbook watch {NAMES[0]}\n"
    assert path.read_text() == "mine"
    assert second.startswith(f"Wrote attempts/{NAMES[1]}.py")
    assert run("start").stdout == f"{attempt_files.ALL_SOLVED}\n"


def test_alone_it_says_where_the_reader_is(
    run: Run, tmp_path: Path
) -> None:
    """A bar with a cell a problem, the number solved, and what is next."""
    solve(tmp_path, NAMES[1])
    progress = tmp_path / attempt_files.PROGRESS
    progress.mkdir()
    (progress / f"{NAMES[0]}.py").touch()
    for columns in ("60", "80", "120"):
        result = run(COLUMNS=columns)
        bar, following, *_ = result.stdout.splitlines()

        assert result.returncode == 0
        count = len(NAMES)
        assert bar == f"█▒{'░' * (count - 2)}  1 of {count} solved"
        assert following == f"next: shardbook watch {NAMES[1]}"
        assert "\x1b" not in result.stdout
    assert "shardbook --help" in result.stdout


def test_an_attempt_is_compared_with_the_solution(
    run: Run, tmp_path: Path
) -> None:
    """``compare`` shows the lines that differ, and says if none do."""
    path = solve(tmp_path)
    same = run("compare", NAME).stdout
    path.write_text(f"# mine\n{path.read_text()}")
    lines = run("compare", NAME).stdout.splitlines()

    assert same == f"attempts/{NAME}.py is the solution.\n"
    assert lines[:2] == [f"--- attempts/{NAME}.py", "+++ the solution"]
    assert "-# mine" in lines
    assert run("compare", OTHER).returncode == 2
    path.write_text(attempt_files.starter(NAME))
    unasked = run("compare", NAME)
    assert unasked.returncode == 2
    assert f"shardbook compare {NAME} --yes" in unasked.stderr
    shown = run("compare", NAME, "--yes").stdout
    assert "\n-    raise NotImplementedError\n" in shown
    assert attempt_files.MARK.strip() not in shown
    (tmp_path / "step.json").write_text("{}")
    unknown = run("compare", "step.json", COLUMNS="400").stderr
    assert "shardbook compare NAME step.json" in unknown


@pytest.mark.exhaustive("it grades several attempts")
def test_a_command_can_be_pasted(run: Run, tmp_path: Path) -> None:
    """Paths with spaces and quotes are quoted in all commands."""
    folder, other = tmp_path / "my attempts", tmp_path / "a b.py"
    folder.mkdir()
    path = folder / "it's mine.py"
    path.write_text(attempt_files.solution(NAME))
    right = run("check", str(path)).stdout
    path.write_text(attempt_files.starter(NAME))
    unasked = run("compare", NAME, str(path)).stderr
    other.write_text("{}")
    unknown = run("check", other.name, COLUMNS="400").stderr
    swapped = run("diff", NAME, other.name).stderr
    commands = [
        re.search(r"(?<=: )shardbook .*?(?= *│?$)", each, re.M)
        for each in (right, unasked, unknown, swapped)
    ]

    assert [shlex.split(each[0]) for each in commands if each] == [
        ["shardbook", "compare", NAME, str(path)],
        ["shardbook", "compare", NAME, str(path), "--yes"],
        ["shardbook", "check", "NAME", other.name],
        ["shardbook", "compare", NAME, other.name],
    ]


@pytest.mark.exhaustive("it grades several attempts")
def test_the_difference_of_two_files(run: Run, tmp_path: Path) -> None:
    """``diff`` has the exit status of diff, and says what it can't read."""
    for name, spec in (("a", ["data"]), ("b", [])):
        arrays = {"w": {"type": "f", "spec": [spec], "bytes": 4}}
        content = {"mesh": {"data": 2}, "arrays": arrays}
        save("layout", content, tmp_path / f"{name}.json")
    (tmp_path / "c.json").write_text("{}")
    differ = run("diff", "a.json", "b.json")
    same = run("diff", "a.json", "a.json")

    assert (differ.returncode, same.returncode) == (1, 0)
    assert differ.stdout == "changed: w: P('data') -> P(None)\n"
    assert same.stdout == "No difference.\n"
    for wrong, words in (
        (("a.json", "c.json"), "c.json is not a saved layout or program"),
        (("a.json", "none.json"), "none.json: No such file"),
        (("a.json", "."), "Can't read .: Is a directory"),
        (("a.json",), "Missing argument"),
        ((NAME, "x.py"), f"shardbook compare {NAME} x.py\n"),
        (("a.json", "b.json", "--tolerance", "-1"), "Invalid value"),
    ):
        result = run("diff", *wrong)

        assert result.returncode == 2
        assert words in result.stderr


def test_a_lost_donation_is_no_gain(tmp_path: Path) -> None:
    """In color, less memory is green, but less that is donated is red."""
    x = jax.ShapeDtypeStruct((8, 8), "float32")
    for name, donated in (("a.json", [0]), ("b.json", [])):
        step = jax.jit(jax.numpy.sin, donate_argnums=donated)
        program(step, x).save(tmp_path / name)
    for files, change, number in (
        (("a.json", "b.json"), "gone", 31),
        (("b.json", "a.json"), "new", 32),
    ):
        terminal = Terminal(tmp_path, "diff", *files)
        terminal.end()

        assert f"\x1b[{number}m{change}\x1b[0m: donation" in terminal.seen
        memory = {31: "31mgrown", 32: "32mshrunk"}[number]
        assert f"\x1b[{memory}\x1b[0m: memory" in terminal.seen


def test_reset_asks_and_keeps_what_was_written(
    run: Run, tmp_path: Path
) -> None:
    """Nothing is lost, not by the second time either."""
    path = solve(tmp_path)
    folder = path.parent
    unasked = run("reset", NAME)
    assert unasked.returncode == 2
    assert "reset state_zero_kernel --yes" in unasked.stderr
    assert path.read_text() == attempt_files.solution(NAME)

    for number, text in enumerate(("first", "second"), 1):
        path.write_text(text)
        done = run("reset", NAME, "--yes")
        kept = folder / f"{NAME}.{number}.bak"

        assert done.stdout.endswith(f"is in attempts/{kept.name}.\n")
        assert kept.read_text() == text
        assert path.read_text() == attempt_files.starter(NAME)
    assert (folder / f"{NAME}.1.bak").read_text() == "first"
    assert run("reset", OTHER).returncode == 2


@pytest.mark.parametrize("name", NAMES)
def test_a_starter_says_all_but_the_solution(name: str) -> None:
    """A starter has the contract, and at most one place to write."""
    text = attempt_files.starter(name)

    assert f"def {name}(" in text
    assert "Returns:" in text
    assert attempt_files.MARK not in text
    assert text.count("NotImplementedError") <= 1
    compile(text, name, "exec")


def test_a_problem_hands_out_code_to_repair(
    run: Run, tmp_path: Path
) -> None:
    """A file in the folder starters is what an attempt begins with."""
    package = tmp_path / "src" / "shardbook"
    shutil.copytree(attempt_files.PROBLEMS.parent, package)
    names = package / "problems" / "__init__.py"
    text = names.read_text().replace(f'"{NAMES[0]}",', '"made_up",', 1)
    names.write_text(text)
    starters = package / "problems" / "starters"
    starters.mkdir(exist_ok=True)
    (starters / "made_up.py").write_text(
        "def made_up():\n    return 1 / 0\n"
    )
    result = run("start", "made_up", PYTHONPATH=str(package.parent))

    assert "attempts/made_up.py" in result.stdout, result.stderr
    written = tmp_path / "attempts" / "made_up.py"
    assert written.read_text() == "def made_up():\n    return 1 / 0\n"


def test_a_right_attempt(run: Run, tmp_path: Path) -> None:
    """A right attempt is noted, and the problem after it comes next."""
    solve(tmp_path)
    run("start", "1")
    result = run("check", NAME.replace("_k", "-K"))
    following = f"next: shardbook start {NAMES[NAMES.index(NAME) + 1]}\n"
    listed = run("list").stdout

    assert result.returncode == 0, result.stdout
    assert re.search(r"^  right$", result.stdout, re.M)
    assert f"\ncompare: shardbook compare {NAME}\n{following}" in (
        result.stdout
    )
    assert re.search(rf" {NAME} +solved ", listed)
    assert listed.endswith(following)


def test_after_the_last_problem_comes_the_first(
    run: Run, tmp_path: Path
) -> None:
    """What is next is what was begun, or left out, from the start on."""
    progress = tmp_path / attempt_files.PROGRESS
    progress.mkdir(parents=True)
    for at, name in enumerate((NAMES[-1], NAMES[1], NAMES[-2])):
        (progress / f"{name}.py").touch()
        os.utime(progress / f"{name}.py", (at, at))
    attempt_files.start(NAMES[0], progress.parent)

    assert f"next: shardbook watch {NAMES[0]}\n" in run().stdout


def test_a_wrong_attempt(run: Run, tmp_path: Path) -> None:
    """A wrong attempt gives exit status 1 and all parts of a verdict."""
    path = tmp_path / "mine.py"
    path.write_text(
        f"import jax.numpy as jnp\n\n\ndef {NAME}(seed, x, features):\n"
        "    return jnp.zeros((*x.shape[:-1], int(features)))\n"
    )
    result = run("check", "mine.py", COLUMNS="60")

    assert result.returncode == 1
    assert "\x1b" not in result.stdout
    for label in (
        "wrong (values, case ",
        "call:",
        "got:",
        "expected:",
        "read:",
    ):
        assert label in result.stdout
    # Continued below its label, not at the left edge.
    assert not re.search(
        r"^\w", result.stdout[80:].partition("got:")[2], re.M
    )
    assert not re.search(r" $", result.stdout, re.M)


def test_json(run: Run, tmp_path: Path) -> None:
    """--json prints verdicts alone: of all in order, or of some."""
    for number in "21":
        run("start", number)
    (tmp_path / "attempts" / "notes.py").write_text("print('not mine')")
    (tmp_path / "other.py").write_text(attempt_files.solution(NAME))
    result = run("check", "--json")
    first, second = json.loads(
        run("check", "--json", "1", "other.py").stdout
    )

    assert result.returncode == 1
    found = [each["problem"] for each in json.loads(result.stdout)]
    assert found == list(NAMES[:2])
    assert first["status"] == "not written"
    assert first["source"] == f"attempts/{NAMES[0]}.py"
    assert second["status"] == "right"
    assert second["compared"]["collectives"] == ["none", "none"]


def test_a_file_after_its_problem(run: Run, tmp_path: Path) -> None:
    """It is graded and noted as that problem, without a folder attempts."""
    (tmp_path / "mine.py").write_text("def mine(): ...\n")
    (tmp_path / "other.py").write_text(attempt_files.solution(NAME))
    result = run("check", "--json", NAME, "mine.py", NAME, "other.py")
    found = [
        (each["problem"], each["source"], each["status"])
        for each in json.loads(result.stdout)
    ]

    assert found == [
        (NAME, "mine.py", "wrong"),
        (NAME, "other.py", "right"),
    ]
    assert re.search(rf" {NAME} +solved ", run("list").stdout)


@pytest.mark.exhaustive("it grades several attempts")
def test_what_a_terminal_can_not_show(run: Run, tmp_path: Path) -> None:
    """Odd names and errors are spelled out, and later files are graded."""
    odd = os.fsdecode(b"caf\xe9.py")
    (tmp_path / odd).write_text(
        f"def {NAME}(*_):\n    raise ValueError('\\x1b[2J \\udce9')\n"
    )
    kills = f"import os\ndef {NAME}(*_): os.kill(os.getppid(), 9)\n"
    (tmp_path / "kills.py").write_text(kills)
    files = (odd, "kills.py", str(solve(tmp_path)))
    strict = {"PYTHONIOENCODING": "utf-8:strict"}
    result = run("check", *files, **strict)
    verdicts = json.loads(run("check", "--json", *files, **strict).stdout)

    assert result.returncode == 1, result.stderr
    assert r"  caf\udce9.py" in result.stdout
    assert r"ValueError: \x1b[2J \udce9" in result.stdout
    assert "watches over it were killed" in result.stdout
    assert "1 of 3 are right" in result.stdout
    assert "\x1b" not in result.stdout
    assert [each["status"] for each in verdicts] == [
        "crashed",
        "crashed",
        "right",
    ]
    assert json.dumps(verdicts, ensure_ascii=False).encode()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("check",), "There is no attempt in attempts/"),
        (("check", "no_such"), "Unknown problem 'no_such'."),
        (("check", f"{NAME}s"), f"mean {NAME}? All names: shardbook list"),
        (("check", NAME), f"There is no attempts/{NAME}.py"),
        (("check", "nowhere.py"), "There is no file nowhere.py"),
        (("check", "empty.py"), "Can't tell which problem empty.py is for"),
        (("check", "empty.py"), "first: shardbook check NAME empty.py"),
        (("check", NAME, "nowhere.py"), "There is no file nowhere.py"),
        (
            ("check", NAME, "other.py"),
            f"There is no attempts/{NAME}.py (other.py is for {OTHER})",
        ),
        (
            ("check", "broken.py"),
            "is not Python with the function of one",
        ),
        (("check", "--seconds", "0", NAME), "--seconds"),
        (("check", "--seconds", "inf", NAME), "--seconds"),
        (("check", "--seconds", "nan", NAME), "--seconds"),
        (("check", "--unknown"), "--unknown"),
        (("start",), "Can't write attempts: It is not a folder"),
        (("hint",), "NAME"),
        (("start", "0"), "Unknown problem '0'"),
        (
            ("start", "state_"),
            f"it can be state_to_sharded_layout or {NAME}",
        ),
        (("start", NAME), "Can't write attempts: It is not a folder"),
        (("start", "no_such"), "Unknown problem 'no_such'."),
        (("solution", "no_such"), "'no_such'. All names: shardbook list"),
        (("watch",), "Can't grade: [Errno 17] File exists"),
        (("watch", "split"), f"There is no attempts/{OTHER}.py"),
        (("no_such_command",), "no_such_command"),
    ],
)
def test_wrong_calls(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    words: str,
) -> None:
    """A wrong call gives exit status 2, and says what to do."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.py").touch()
    (tmp_path / "broken.py").write_text(f"def {NAME}(")
    (tmp_path / "other.py").write_text(f"def {OTHER}(): ...")
    (tmp_path / "attempts").touch()
    result = CliRunner().invoke(app, arguments)

    # Any other exception would be a traceback.
    assert isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == 2
    assert words in re.sub(r"[\s│]+", " ", result.stderr)


# What there may be instead of what a reader's machine has. A folder in a
# file can't be made, not even by root.
WORLDS = {
    "no home, no letters but ASCII": {
        "HOME": None,
        "LC_ALL": "POSIX",
        "PYTHONUTF8": "0",
        "PYTHONCOERCECLOCALE": "0",
    },
    "nowhere to write": {
        "HOME": "file/home",
        "XDG_CACHE_HOME": "file/cache",
        "TMPDIR": "file/tmp",
    },
}


@pytest.mark.exhaustive("machines that are seldom so")
@pytest.mark.parametrize("world", WORLDS)
def test_any_world(run: Run, tmp_path: Path, world: str) -> None:
    """An attempt is graded and noted, whatever the machine lacks."""
    (tmp_path / "file").touch()
    folder = tmp_path / "ein schönes Buch, 第一"
    folder.mkdir()
    there = {
        name: value and value.replace("file", f"{tmp_path}/file")
        for name, value in WORLDS[world].items()
    } | {"cwd": folder}
    path = solve(folder)
    result = run("check", str(path), NAME, **there)

    assert result.returncode == 0, result.stdout + result.stderr
    assert "2 of 2 are right" in result.stdout
    assert re.search(rf" {NAME} +solved ", run("list", **there).stdout)


def test_what_is_solved_can_not_be_noted(run: Run, tmp_path: Path) -> None:
    """A right attempt is right all the same, and a line says so."""
    path = solve(tmp_path)
    (tmp_path / attempt_files.PROGRESS).touch()
    result = run("check", NAME)

    assert result.returncode == 0
    words = "Can't note in attempts what is solved: File exists"
    assert words in result.stderr
    assert len([*path.parent.iterdir()]) == 2


def test_there_is_no_room(run: Run, tmp_path: Path) -> None:
    """``check`` says why it can't grade: no room, or a broken jax."""
    run("start", NAME)
    full = (
        "import resource, runpy, sys\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n"
        "runpy._run_module_as_main('shardgrade')"
    )
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "jax.py").write_text("raise OSError('not I')")
    paths = [str(tmp_path / "lib"), os.environ.get("PYTHONPATH", "")]
    other = {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    no_room = run("check", NAME, program=("-c", full))
    no_jax = run("check", NAME, **other)

    assert (no_room.returncode, no_jax.returncode) == (2, 2)
    assert re.search(
        r"^Can't grade: .*No usable temp", no_room.stderr, re.M
    )
    assert "Traceback" not in no_room.stderr
    assert "OSError: not I\nCan't grade: the process" in no_jax.stderr


@pytest.mark.exhaustive("it waits for a terminal")
@pytest.mark.parametrize("command", ["check", "watch"])
def test_an_interrupt_while_grading(tmp_path: Path, command: str) -> None:
    """No process is left, no folder, and nothing that is half a note."""
    note, temporary = tmp_path / "note", tmp_path / "temporary"
    temporary.mkdir()
    path = attempt_files.start(NAME, tmp_path / "attempts")
    path.write_text(
        "import os, pathlib, time\n"
        f"pathlib.Path({str(note)!r}).write_text(str(os.getpid()))\n"
        "time.sleep(100)\n"
    )
    process = subprocess.Popen(
        (sys.executable, "-P", "-m", "shardgrade", command, NAME),
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    while not note.exists() or not note.read_text():
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    children = psutil.Process(process.pid).children(recursive=True)
    # As a terminal does, to the whole group of processes.
    os.killpg(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=60)

    assert process.returncode == 130, output
    assert "Traceback" not in output
    assert "\x1b" not in output
    assert int(note.read_text()) in [child.pid for child in children]
    assert psutil.wait_procs(children, timeout=0)[1] == []
    assert [*temporary.iterdir()] == []
    assert [*path.parent.iterdir()] == [path]


@pytest.mark.exhaustive("it waits for a terminal")
def test_nothing_is_left_of_the_line_that_waits(tmp_path: Path) -> None:
    """A verdict on a terminal begins on a line of its own."""
    solve(tmp_path)
    terminal = Terminal(tmp_path, "check", NAME)

    assert terminal.end() == 0
    # What is left of each line when all is written.
    lines = [
        re.sub(r"\x1b\[[\d;?]*\w", "", line.rpartition("\x1b[2K")[2])
        for line in terminal.seen.splitlines()
    ]
    assert f"{NAME}  attempts/{NAME}.py" in map(str.strip, lines)


@pytest.mark.exhaustive("it waits for a terminal")
@pytest.mark.parametrize("answer", ["n", "y"])
def test_compare_asks_before_it_shows_the_whole_solution(
    tmp_path: Path, answer: str
) -> None:
    """Who wants to see the changes to a starter is not told the answer."""
    attempt_files.start(NAME, tmp_path / "attempts")
    terminal = Terminal(tmp_path, "compare", NAME)
    terminal.until("Show it? [y/N]")
    terminal.press(f"{answer}\n")

    assert terminal.end() == (answer == "n")
    assert ("+++ the solution" in terminal.seen) == (answer == "y")


@pytest.mark.exhaustive("it waits for a terminal")
def test_each_problem_is_a_line_of_a_narrow_terminal(
    tmp_path: Path,
) -> None:
    """What does not fit is cut, and that is a title."""
    terminal = Terminal(tmp_path, "list")
    terminal.end()
    lines = re.sub(r"\x1b\[[\d;?]*\w", "", terminal.seen).splitlines()

    assert len(lines) == len(NAMES) + 2
    assert max(map(len, lines)) <= COLUMNS
    assert any(line.endswith(" …") for line in lines)


@pytest.mark.exhaustive("it waits for a terminal")
@pytest.mark.parametrize("answer", ["n", "y"])
def test_reset_asks_on_a_terminal(tmp_path: Path, answer: str) -> None:
    """Only what the reader agrees to is done."""
    path = solve(tmp_path)
    terminal = Terminal(tmp_path, "reset", NAME)
    terminal.until("Begin again? [y/N]")
    terminal.press(f"{answer}\n")

    assert terminal.end() == (answer == "n")
    agreed = path.read_text() == attempt_files.starter(NAME)
    assert agreed == (answer == "y")
    assert path.with_suffix(".1.bak").exists() == agreed


@pytest.mark.exhaustive("it waits for a terminal")
def test_watch_takes_keys(tmp_path: Path) -> None:
    """A save ends a run; each key does what is said below a verdict."""
    path = solve(tmp_path)
    path.write_text(f"def {NAME}(*_):\n    while True: pass\n")
    number = str(NAMES.index(NAME) + 1)
    terminal = Terminal(tmp_path, "watch", number, "--seconds", "100")
    terminal.until("Grading attempts")
    terminal.until("case 1 of ")
    terminal.press("c")
    # As editors save: another file, moved into the place of the first.
    other = path.with_suffix(".new")
    other.write_text(attempt_files.solution(NAME))
    other.replace(path)
    right = terminal.until(
        "A save meanwhile began it again", "right", "q quit"
    )
    terminal.press("c")
    terminal.until("is the solution", "v verdict, ", "q quit")
    terminal.press("v")
    verdict = terminal.until("right", "q quit")
    terminal.press("h")
    hint = terminal.until("Hint 1 of 3", "q quit")
    terminal.press("l")
    terminal.until(f"1 of {len(NAMES)} solved", "q quit")
    terminal.press("n")
    terminal.until(NAMES[NAMES.index(NAME) + 1], "not written", "q quit")
    attempt_files.start(OTHER, path.parent)
    started = terminal.until(OTHER, "not written", "q quit")
    terminal.press("q")

    assert terminal.end() == 0
    assert "\x1b[2J" in right
    # Of a key that is not offered nothing comes.
    assert "+++ the solution" not in terminal.seen
    assert "CPU time" not in terminal.seen
    assert "is the solution" not in verdict
    assert "v verdict" not in verdict
    assert "right" in hint
    assert "right" not in started


def test_watch_grades_a_file_that_changes_itself(tmp_path: Path) -> None:
    """After a few times it is graded to its end; a save counts again."""
    path = solve(tmp_path)
    solved = path.read_text()
    path.write_text(f"open(__file__, 'a').write('# again\\n')\n{solved}")
    terminal = Terminal(tmp_path, "watch", NAME)
    right = terminal.until("right", "q quit")
    # It waits, and does not begin again.
    time.sleep(1)
    count = path.read_text().count("# again")
    path.write_text(solved)
    other = terminal.until("Grading", "right", "q quit")
    terminal.press("q")

    assert terminal.end() == 0
    said, later = (
        " ".join(re.sub(r"\x1b\[[\d;?]*\w", "", each).split())
        for each in (right, other)
    )
    assert "changes while it is graded: does it change itself?" in said
    assert "change itself" not in later
    assert 5 < count < 9
    assert path.read_text() == solved


@pytest.mark.exhaustive("it waits for a terminal")
def test_watch_knows_the_problem_of_a_broken_file(tmp_path: Path) -> None:
    """A file of another name is for the same problem while it is broken."""
    path = tmp_path / "mine.py"
    path.write_text(attempt_files.solution(NAME))
    terminal = Terminal(tmp_path, "watch", "mine.py")
    terminal.until("right", "q quit")
    path.write_text(f"def {NAME}(")
    broken = terminal.until("crashed", "q quit")
    terminal.press("q")

    assert terminal.end() == 0
    assert NAME in broken
    assert "SyntaxError" in broken
