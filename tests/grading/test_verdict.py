"""A verdict says what was called, and what came of it."""

import html
import json
import re
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import jax
import numpy as np
import pytest
from rich.console import Console

from shardbook import book
from shardgrade.grading import differences, measures, same
from shardgrade.grading.cases import Seen
from shardgrade.grading.verdict import Verdict
from shardgrade.jobs.job import Job, verdict_of, verdicts_of
from shardgrade.jobs.sandbox import Limits, Outcome, Sandbox, Then
from shardgrade.reader import attempt_files

pytestmark = pytest.mark.newest

NAME = "state_zero_kernel"
SMALL = f"{NAME}(3, normal(2, 3), 4)"
LONG = f"megatron_mlp({', '.join(['normal(8, 12)'] * 9)})"
CALL = f"from shardbook.cases import normal\n{LONG}"
VERDICT = Verdict(
    "megatron_mlp",
    "mine.py",
    "wrong",
    check="values",
    call=CALL,
    given="with a GELU that gives zeros",
    got="1",
    expected="2",
    why="the values differ",
    read="The API",
)


def shown(verdict: Verdict, width: int) -> str:
    """Return what a terminal shows."""
    console = Console(width=width, force_terminal=False)
    with console.capture() as capture:
        console.print(verdict, crop=False)
    return capture.get()


def test_a_call_can_be_copied() -> None:
    """Its lines are whole and not indented, however narrow the terminal."""
    for words in (shown(VERDICT, 60), shown(VERDICT, 100), repr(VERDICT)):
        assert f"\n  call:\n{CALL}\n  given: with a GELU" in words


def test_a_verdict_names_the_checks_that_could_not_run() -> None:
    """A verdict with checks that did not run is not right."""
    verdict = VERDICT.update(
        status="incomplete",
        check="",
        why="no check failed, but one could not run",
        not_run=("structure", "placement"),
    )

    assert not verdict.right
    assert "incomplete: no check failed, but" in repr(verdict)
    assert "not run: structure, placement" in repr(verdict)
    assert ">  not run: <" in verdict._repr_html_()


def test_no_line_is_wider_than_the_terminal() -> None:
    """Words are not broken, and lines that differ are marked."""
    verdict = VERDICT.update(
        call="",
        why="a reason of many words " * 8,
        got="calls 1\ncolsum 2",
        expected=f"calls 1\ncolsum {'30 ' * 30}",
    )
    text = shown(verdict, 60)

    assert max(map(len, text.splitlines())) <= 60
    assert " \n" not in text
    assert "\n    words a reason" in text
    assert "+:\n    calls 1\n  - colsum 2\n  + colsum 30 30" in text
    assert "\n      30 30" in text


def test_the_section_to_read_is_a_link(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A terminal gets a link to the section of the page that was built."""
    built = tmp_path / "docs/_build/html"
    monkeypatch.setattr(book, "CLONE", tmp_path)
    for read, place in (
        ("0 * `NaN`: a trap", "problems/megatron_mlp.html#nan-a-trap"),
        (
            f"{book.GUIDE}Array has been deleted",
            "guides/errors/jit.html#array-has-been-deleted",
        ),
    ):
        page = built / place.partition("#")[0]
        page.parent.mkdir(parents=True)
        page.touch()
        console = Console(width=80, force_terminal=True)
        with console.capture() as capture:
            console.print(VERDICT.update(read=read))

        assert f";{built.as_uri()}/{place}\x1b" in capture.get()
    assert "read: The API (shardbook open megatron_mlp)" in repr(VERDICT)


@pytest.mark.parametrize(
    ("got", "expected", "shows"),
    [
        (
            np.ones((3, 16), "float32"),
            np.vstack([np.ones((2, 16)), np.full((1, 16), np.nan)]),
            "float32[3,16] at [2, 0]: 1 (16 of 48 entries differ)",
        ),
        (np.array([1, 2.0]), np.array([1.00001, 3]), "[0] 1.00001\n[1] 2"),
        ({"a": 1, "bc": 2}, {"a": 1, "bc": 3}, "a  1\nbc 2"),
        ({"a": 2}, {"a": np.array(3.0)}, "a 2"),
        ("none", "2 all-reduce", "none"),
    ],
)
def test_what_differs_is_shown(
    got: object, expected: object, shows: str
) -> None:
    """A few numbers are shown in lines, of others the first that differ."""
    left, right = differences.difference(got, expected)

    assert left == shows
    assert left != right


def test_how_an_attempt_ended(tmp_path: Path, sandbox: Sandbox) -> None:
    """The line where time was up, the memory; a module beside is found."""
    (tmp_path / "helper.py").write_text("import json\nwrong = 3\n")
    (tmp_path / "json.py").write_text("raise SystemExit")
    path = tmp_path / "attempt.py"
    body = "import helper\n\n\ndef state_zero_kernel(*_):\n"
    job = Job(NAME, "mine", path)
    briefly, small = Limits(seconds=3), Limits(megabytes=64)
    path.write_text(f"{body}    while helper.wrong:\n        pass\n")
    (slow,) = verdicts_of(sandbox, [replace(job, limits=briefly)])
    (large,) = verdicts_of(sandbox, [replace(job, limits=small)])
    path.write_text(f"{body}    for n in range(99): print(n)\n")
    (talks,) = verdicts_of(sandbox, [job])

    words = "it used more than 3 s of CPU time\n(line"
    assert slow.why.startswith(words)
    assert not slow.read
    assert slow.seconds > 3
    assert large.why == "it needs more than 64 MiB of memory"
    assert "64 MiB of memory; --megabytes allows more" in large.expected
    assert "printed, the end of it:\n    79\n" in repr(talks)
    assert len([*tmp_path.iterdir()]) == 3


@pytest.mark.parametrize(
    ("attempt", "ending", "expected"),
    [
        (
            b"",
            "used more than 5 s of CPU time",
            "at most 5 s; check(..., seconds=...) allows more",
        ),
        (
            Path("mine.py"),
            "hardly used the CPU for 5 s",
            "at most 5 s; --seconds allows more",
        ),
        (b"", "ended with exit status 0", ""),
    ],
)
def test_a_process_that_ended(
    attempt: Path | bytes, ending: str, expected: str
) -> None:
    """The verdict names the call that it was in, and what allows more."""
    job = Job(NAME, "mine", attempt, Limits(seconds=5))
    at = "case 2 of 9 on 4 devices", SMALL
    verdict = verdict_of(job, Outcome(None, ending, "", 5, *at))
    late = verdict_of(job, Outcome(None, ending, "", 5, "comparing", SMALL))

    assert verdict.why == f"its process {ending}"
    assert verdict.case == "2 of 9 on 4 devices"
    assert (verdict.call, verdict.expected) == (SMALL, expected)
    assert late.case == ""


@pytest.mark.parametrize(
    ("text", "shows"),
    [
        (
            "def f(:\n",
            "SyntaxError: invalid syntax|(line 1)|def f(:|      ^",
        ),
        (
            "if 1:\n    x = 1\n  y = 2\n",
            "IndentationError: unindent does not match any outer "
            "indentation level|(line 3)|y = 2|     ^",
        ),
        (
            "if 1:\n\tx = 1\n        y = 2\n",
            "TabError: inconsistent use of tabs and spaces in indentation|"
            "(line 3)|y = 2|^",
        ),
        (
            f"x = '{'x' * 80}' 3\n",
            f"SyntaxError: invalid syntax|(line 1)|{'x' * 28}' 3|"
            f"{' ' * 30}^",
        ),
        (
            "import broken",
            "SyntaxError: invalid syntax|"
            "(line 1 of broken.py)|def f(:|      ^",
        ),
    ],
)
def test_a_syntax_error(
    tmp_path: Path, sandbox: Sandbox, text: str, shows: str
) -> None:
    """The line is shown, with a mark below the place."""
    (tmp_path / "broken.py").write_text("def f(:\n")
    path = tmp_path / "mine.py"
    path.write_text(text)
    # Of other errors, this problem has a section to read.
    (verdict,) = verdicts_of(sandbox, [Job("who_holds", "mine", path)])
    error, place, code, mark = shows.split("|")
    lines = f"{place}\n  {code}\n  {mark}"

    assert verdict.why == f"{error}\n{lines}"
    assert not verdict.read
    below = html.escape(f"\n      {code}\n      {mark}")
    assert below in verdict._repr_html_()
    for words in (shown(verdict, 80), repr(verdict)):
        assert f"\n      {code}\n      {mark}\n" in f"{words}\n"


def test_what_can_not_be_shown(tmp_path: Path, sandbox: Sandbox) -> None:
    """Codes of a terminal, and what UTF-8 can't encode, are spelled out."""
    path = tmp_path / "mine.py"
    path.write_text(
        f"def {NAME}(*_):\n"
        "    print('\\x1b[2J')\n"
        "    raise ValueError('\\x1b[2J\\x9b \\ud800 \\t\\u00e9')\n"
    )
    job = Job(NAME, "\udce9\x1b.py", path)
    (verdict,) = verdicts_of(sandbox, [job])
    words = json.dumps(verdict.as_json(), ensure_ascii=False)

    assert verdict.source == r"\udce9\x1b.py"
    assert verdict.why.startswith(
        "ValueError: \\x1b[2J\\x9b \\ud800 \t\u00e9\n"
    )
    assert verdict.printed == "\\x1b[2J\n"
    for text in (shown(verdict, 80), verdict._repr_html_(), words):
        assert "\x1b" not in text
        assert text.encode()


def test_an_error_that_the_guide_explains(
    tmp_path: Path, sandbox: Sandbox
) -> None:
    """A verdict names the guide where a problem's page has no section."""
    path = tmp_path / "attempt.py"
    words = "jax_num_cpu_devices config should be updated before"
    path.write_text(
        "import jax\n\n\ndef state_zero_kernel(*_):\n"
        "    jax.config.update('jax_num_cpu_devices', 4)\n"
    )
    (verdict,) = verdicts_of(sandbox, [Job(NAME, "mine", path)])

    assert f": {words}" in verdict.why
    assert verdict.read == book.GUIDE + words
    assert "\n  read: the guide" in repr(verdict)
    assert "shardbook open" not in repr(verdict)


def test_a_long_error_keeps_its_end(
    tmp_path: Path, sandbox: Sandbox
) -> None:
    """What jax says might fix an error comes last, after all of a carry."""
    path = tmp_path / "attempt.py"
    path.write_text(
        "import jax\n\nP = jax.sharding.PartitionSpec\n"
        "Auto = jax.sharding.AxisType.Auto\n\n\n"
        "def state_zero_kernel(*_):\n"
        "    mesh = jax.make_mesh((8,), ('data',), (Auto,))\n\n"
        "    @jax.shard_map(mesh=mesh, in_specs=P('data'), out_specs=P())\n"
        "    def run(x):\n"
        "        none = (jax.numpy.zeros(1),) * 12\n"
        "        return jax.lax.scan(lambda *_: ((x,) * 12, None), none,\n"
        "            length=2)[0]\n\n"
        "    return run(jax.numpy.zeros(8))\n"
    )
    (verdict,) = verdicts_of(sandbox, [Job(NAME, "mine", path)])
    left_out = re.search(r"\.\.\. \(([\d,]+) characters left", verdict.why)

    assert verdict.why.startswith("TypeError: scan body function carry")
    assert left_out
    assert int(left_out[1].replace(",", "")) > 1000
    hint = r"applying `jax\.lax\.pcast.*_\[11\]\..*\(line 13\)$"
    assert re.search(hint, verdict.why, re.DOTALL)
    assert len(verdict.why) < 1700


EXAMPLE = "state_zero_kernel(3, normal(2, 3), 4)"


@pytest.fixture
def grade(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., Verdict | Then[Verdict]]:
    """Give what grades the solution by the checks of a test."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    path = tmp_path / "mine.py"
    path.write_text(attempt_files.solution(NAME))
    job = Job(NAME, "mine", path, limits=Limits(seconds=3))

    def run_checks(
        *checks: same.Check, job: Job = job, **more: object
    ) -> Verdict | Then[Verdict]:
        module = ModuleType("checks")
        vars(module).update(
            EXAMPLE=EXAMPLE, CHECKS=same.numbered("toy")(checks), **more
        )
        name = f"shardgrade.checks.{NAME}"
        monkeypatch.setitem(sys.modules, name, module)
        return job()

    return run_checks


def differs(seen: Seen) -> str:
    """Give what is never the same for an attempt and the solution."""
    return seen.attempt.filename


def test_a_remark_is_no_refusal(
    grade: Callable[..., Verdict | Job],
) -> None:
    """What a check called "remark" finds is said of a right attempt."""
    verdict = grade(
        same.remark(EXAMPLE, differs, "so", read="S"),
        same.values(EXAMPLE, measures.result, "values"),
    )

    assert isinstance(verdict, Verdict)
    assert verdict.right, verdict
    assert [*verdict.remarks] == [("so", "S")]
    assert "\n  remark: so\n  read: S (shardbook" in repr(verdict)


def test_each_call_of_a_check_is_a_case(
    grade: Callable[..., Verdict | Job],
) -> None:
    """The number of a case grows with each call that is right."""
    calls = [EXAMPLE, EXAMPLE.replace("normal(2, 3)", "normal(4, 3)")]

    def second(seen: Seen) -> str:
        return differs(seen) if seen.case.call == calls[1] else ""

    verdict = grade(
        same.types(EXAMPLE), same.values(calls, second, "values")
    )

    assert isinstance(verdict, Verdict)
    assert (verdict.status, verdict.case) == ("wrong", "3 of 3")


def test_a_limit_that_is_exceeded_outside_of_an_attempt(
    grade: Callable[..., Verdict | Job],
) -> None:
    """No line is named if it is the solution that runs as time is up."""
    verdict = grade(
        same.values(
            EXAMPLE, lambda _: signal.raise_signal(signal.SIGXCPU), "values"
        ),
        seconds=3,
    )

    assert isinstance(verdict, Verdict)
    assert (verdict.status, verdict.check) == ("crashed", "values")
    assert verdict.why == "grading it used more than 3 s of CPU time"


@pytest.mark.parametrize(
    ("of", "status"), [(measures.result, "right"), (differs, "wrong")]
)
def test_checks_for_another_number_of_devices(
    grade: Callable[..., Verdict | Then[Verdict]],
    of: Callable[[Seen], object],
    status: str,
) -> None:
    """An attempt that passes is graded by them in a job of its own."""
    elsewhere = {
        "ELSEWHERE": {"fixed": same.placement(EXAMPLE, of, "fixed")},
        # This process has started with as many.
        "OTHER_DEVICES": jax.device_count(),
    }
    then = grade(**elsewhere)
    assert isinstance(then, Then)
    job = then.call
    assert isinstance(job, Job)
    assert job.passed is not None
    verdict = grade(job=job, **elsewhere)
    refused = grade(same.values(EXAMPLE, differs, "no"), **elsewhere)

    assert isinstance(verdict, Verdict)
    assert job.passed.right
    assert verdict.status == status
    assert (verdict is job.passed) == (status == "right")
    assert isinstance(refused, Verdict)
