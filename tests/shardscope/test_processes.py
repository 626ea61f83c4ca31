"""What becomes of several processes when something goes wrong in one."""

import contextlib
import inspect
import io
import itertools
import multiprocessing
import os
import re
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import accidents
import numpy as np
import psutil
import pytest
from sizes import all_but

import shardscope
from shardscope.cluster import group as module
from shardscope.cluster.fates import Raised, Waiting, describe_fate
from shardscope.cluster.output import Lines

# Seconds without use of the CPU: a machine has to be really busy to leave a
# process none for so long.
SHORT, LONG = 5, 60
MARK = "SHARDBOOK_TEST_MARK"


@pytest.fixture(autouse=True)
def mark(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Require that nothing is left running of what a test has started."""
    value = uuid.uuid4().hex
    monkeypatch.setenv(MARK, value)
    yield value
    left = marked(value)
    for each in left:
        each.kill()
    assert not left


def marked(value: str) -> list[psutil.Process]:
    """List the processes, but this one, that a test has started."""
    found = []
    for each in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if (
                each.environ().get(MARK) == value
                and each.pid != os.getpid()
            ):
                found.append(each)
    return found


def here(function: Callable[..., Any]) -> str:
    """Name the line of an accident that the message has to name."""
    lines, first = inspect.getsourcelines(function)
    for number, line in enumerate(lines, first):
        if "# here" in line:
            return rf"accidents\.py:{number}\b"
    raise AssertionError("no line is marked")


FAILS = [
    ("raises", "process 1 of 2 raised at HERE:\nValueError: no such"),
    (
        "first_raises",
        "process 0 of 2 raised at HERE:\n.*spans non-addressable",
    ),
    ("all_raise", "processes 0 and 1 of 2 raised at HERE:\nValueError"),
    ("killed", "process 1 of 2 ended without a Python error: SIGKILL"),
    ("exits_at_once", "process 1 of 2 .* error: exit status 9"),
    ("crashes", "process 0 of 2 ended without .* error: SIGSEGV"),
    ("sys_exits", r"process 0 of 2 called sys.exit\('no data'\) at HERE"),
    ("interrupted", "process 1 of 2 raised at HERE:\nKeyboardInterrupt"),
    ("unprintable", "process 1 of 2 raised at HERE:\n.*Unprintable"),
    ("recurses", "process 1 of 2 raised at .*HERE.*:\nRecursionError"),
    ("closes_its_files", "process 1 of 2 ended without a Python error"),
    (
        "returns_a_part",
        "processes 0 and 1 of 2 raised:\nTypeError: .* sent back: .*"
        r"float32\[8, 2\], and this process holds 2 of its 4 slices",
    ),
    ("returns_a_lock", "raised:\nTypeError: .* can't be sent back"),
    (
        "aborts_at_exit",
        "process 0 of 2 came to the end .* then ended with SIGABRT",
    ),
]


@pytest.mark.newest
@pytest.mark.parametrize(
    ("name", "expected"),
    all_but(
        ["raises", "killed"], FAILS, "other ends are told in the same way"
    ),
)
def test_one_fails(name: str, expected: str) -> None:
    """One process fails: all end, and the message names it and its line."""
    accident = getattr(accidents, name)
    if "HERE" in expected:
        expected = expected.replace("HERE", here(accident))

    with pytest.raises(RuntimeError, match=expected):
        shardscope.processes(accident, devices=2, seconds=LONG)


WAITS = [
    ("leaves_early", "process 0 waited at .*HERE\n.*1 had called sys.exit"),
    ("one_step_more", "0 had come to the end .*\n.*1 waited at .*HERE"),
    ("one_alone", "process 0 waited at .*HERE\n.*1 had come to the end"),
    (
        "nobody_reads",
        "process 0 had come to .* did not end.*\n.* 1 had come to the",
    ),
    ("sleeps", "process 0 waited at .*\n  process 1 waited at HERE"),
    ("locked", "process 0 waited at .*\n  process 1 waited at HERE"),
    ("stopped", "process 0 waited at .*HERE\n  process 1 did not answer"),
]


@pytest.mark.newest
@pytest.mark.parametrize(
    ("name", "expected"),
    all_but(["one_alone"], WAITS, "each waits for seconds"),
)
def test_all_wait(name: str, expected: str) -> None:
    """All wait for one another: the message says at which lines."""
    accident = getattr(accidents, name)
    if "HERE" in expected:
        expected = expected.replace("HERE", here(accident))

    with pytest.raises(RuntimeError, match=expected):
        shardscope.processes(accident, devices=2, seconds=SHORT)


@pytest.mark.newest
@pytest.mark.exhaustive("a rare accident")
def test_code_runs_once(tmp_path: Path) -> None:
    """Another port is tried for ours alone, and not for the reader's."""
    path = tmp_path / "runs"
    with pytest.raises(RuntimeError, match="Address already in use"):
        shardscope.processes(accidents.address_in_use, path, devices=2)

    assert path.read_text() == "once\n"


@pytest.mark.newest
@pytest.mark.exhaustive("it waits for seconds")
def test_a_limit_for_those_that_never_rest() -> None:
    """A thread that polls looks like work, so ``timeout`` ends it."""
    expected = (
        f"not ended after 15 s:\n.* 0 waited at {here(accidents.polls)}"
    )

    with pytest.raises(RuntimeError, match=expected):
        shardscope.processes(
            accidents.polls, processes=1, devices=1, seconds=2, timeout=15
        )


@pytest.mark.newest
@pytest.mark.exhaustive("it waits for seconds")
def test_one_never_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that doesn't join is named; the other waits for it."""
    (tmp_path / "sitecustomize.py").write_text(
        "import os, time\n"
        f"if not os.path.exists({str(tmp_path / 'first')!r}):\n"
        f"    open({str(tmp_path / 'first')!r}, 'w').close()\n"
        "    time.sleep(1000)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    with pytest.raises(RuntimeError, match=r"process 0 .*had not joined"):
        shardscope.processes(accidents.raises, devices=1, seconds=SHORT)


@pytest.mark.exhaustive("a rare accident")
def test_a_port_that_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where another program has taken the port, another port is tried."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port, tried = module.reserved_port, []

        @contextlib.contextmanager
        def first_taken() -> Iterator[int]:
            with port() as free:
                tried.append(free)
                yield taken.getsockname()[1] if len(tried) == 1 else free

        monkeypatch.setattr(module, "reserved_port", first_taken)
        results = shardscope.processes(max, 3, 4, devices=1, seconds=LONG)

    assert results == [4, 4]
    assert len(tried) == 2


@pytest.mark.newest
@pytest.mark.parametrize(
    "end",
    all_but(
        [signal.SIGINT],
        [signal.SIGINT, signal.SIGTERM, signal.SIGKILL],
        "the ends are told apart by the kernel alone",
    ),
)
def test_whoever_called_is_ended(end: signal.Signals, mark: str) -> None:
    """Ctrl-C, or the end of the process that called, ends all processes."""
    code = (
        "import shardscope, accidents\n"
        "shardscope.processes(accidents.waits_for_ever, devices=1)\n"
    )
    tools = str(Path(accidents.__file__).parent)
    with subprocess.Popen(
        [sys.executable, "-c", code],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([tools, *sys.path]),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdout
        said = {parent.stdout.readline() for _ in range(2)}
        assert said == {"[0] waits\n", "[1] waits\n"}
        parent.send_signal(end)
        _, words = parent.communicate()

    interrupted = "KeyboardInterrupt\nprocess 0 was at accidents.py:"
    assert (interrupted in words) == (end == signal.SIGINT)
    until = time.monotonic() + LONG
    while marked(mark) and time.monotonic() < until:
        time.sleep(0.1)


@pytest.mark.newest
def test_what_was_sent_is_heard(tmp_path: Path) -> None:
    """An interrupt right after a process has joined knows that it has."""
    link, sent = multiprocessing.Pipe(duplex=False)
    sent.send("joined")
    trace = str(tmp_path / "trace")
    member = module.Member(psutil.Process(), link, [], trace)
    (fate,) = module.fates_of([member]).values()

    assert isinstance(fate, Waiting)
    assert fate.joined


@pytest.mark.newest
@pytest.mark.exhaustive("grading/test_sandbox.py shows the same")
def test_children_of_processes_end_too() -> None:
    """What the processes have started ends with them."""
    assert shardscope.processes(accidents.leaves_a_child, devices=1) == [
        None,
        None,
    ]


def test_what_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    """Lines name their process, and gloo's own lines are left out."""
    assert shardscope.processes(accidents.prints, devices=1) == [16.0, 16.0]

    out, err = capfd.readouterr()
    assert out == "[0] no end, \ufffd and no newline\n"
    assert err == f"[0] {'x' * 2**20}\n"


# What gloo prints of one connection, in the pieces in which it does.
MESSAGE = (
    *("[Gloo] Rank ", "0", " is connected to ", "7", " peer ranks. "),
    *("Expected number of connected peer ranks is : ", "7", "\n"),
)


@pytest.mark.newest
@pytest.mark.exhaustive("all orders of their messages take long")
def test_what_two_threads_of_gloo_print() -> None:
    """However their messages mix, only what the user printed is shown."""
    own = "12\n", "loss 2.5\n"
    for first in itertools.combinations(
        range(2 * len(MESSAGE)), len(MESSAGE)
    ):
        one, other = iter(MESSAGE), iter(MESSAGE)
        mixed = "".join(
            next(one if index in first else other)
            for index in range(2 * len(MESSAGE))
        )
        # What Python prints comes before, between or after whole lines.
        lines = mixed.splitlines(keepends=True)
        torn = lines[0], own[1], lines[1]
        for printed in (own[0], mixed, *own), torn:
            reading, writing = os.pipe()
            os.write(writing, "".join(printed).encode())
            os.close(writing)
            out = io.StringIO()
            passed_on = Lines(reading, "", out)
            passed_on.pump()
            passed_on.close()
            assert out.getvalue() == "".join(
                each for each in printed if each in own
            )


@pytest.mark.parametrize(
    "count", all_but([2], [1, 2, 4], "two processes show the same")
)
def test_results(count: int, tmp_path: Path) -> None:
    """Results come back in order, and initialize() acts as on a cluster."""
    path = tmp_path / "words"
    path.write_text("as on a cluster")

    assert (
        shardscope.processes(
            accidents.has_joined, path, count, processes=count, devices=1
        )
        == [("as on a cluster", True)] * count
    )


def test_a_function_that_closes_over_an_array() -> None:
    """A function can be local, and arrays come back as those of NumPy.

    Its code still knows its file, which a message would name.
    """
    jax = pytest.importorskip("jax")
    array = jax.numpy.arange(4.0)

    def double() -> tuple[int, Any]:
        file = (lambda: None).__code__.co_filename
        return jax.process_index(), {"twice": 2 * array, "file": file}

    (first, one), (second, two) = shardscope.processes(double, devices=1)
    assert (first, second) == (0, 1)
    for each in (one, two):
        assert type(each["twice"]) is np.ndarray
        np.testing.assert_array_equal(each["twice"], [0, 2, 4, 6])
        assert each["file"] == __file__


@pytest.mark.exhaustive("a page shows the same")
def test_devices_are_named_by_their_process() -> None:
    """Where ids are 0, 1, 2048 and 2049, tables and pictures say whose."""
    both = shardscope.processes(accidents.pictures, devices=2)
    assert both[0] == both[1]
    text, svg, table, sent = both[0]

    assert text.splitlines()[1:] == [
        "  device p0.0: [0:2, 0:2]",
        "  device p0.1: [2:4, 0:2]",
        "  device p1.0: [4:6, 0:2]",
        "  device p1.1: [6:8, 0:2]",
    ]
    assert ">p1.1</text>" in svg
    assert "2048" not in svg
    assert "4 devices" in table
    # A ring of four sends a float32 six times a quarter.
    assert sent == 6


@pytest.mark.newest
@pytest.mark.exhaustive("a page runs one")
def test_a_script(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A script finds its arguments, its folder and __main__."""
    (tmp_path / "beside.py").write_text("words = 'imported'\n")
    script = tmp_path / "train.py"
    script.write_text(
        "import sys\n"
        "import jax\n"
        "from beside import words\n"
        "if __name__ == '__main__':\n"
        "    jax.distributed.initialize()\n"
        "    print(words, sys.argv[1:], jax.device_count())\n"
        "    sys.exit()\n"
    )

    assert (
        shardscope.processes(script, "--steps", 3, devices=2) == [None] * 2
    )
    out, err = capfd.readouterr()
    assert "initialize" not in err
    lines = sorted(out.splitlines())
    assert lines == [
        f"[{each}] imported ['--steps', '3'] 4" for each in (0, 1)
    ]
    script.write_text(
        "import shardbook\n"
        "with shardbook.raises(ValueError, 'word'):\n"
        "    raise ValueError('word ' * 99)\n"
        "raise SystemExit\n"
    )
    shardscope.processes(script, processes=1, devices=1)
    out, err = capfd.readouterr()
    assert max(map(len, out.splitlines())) <= 76
    assert "[0] train.py did not call" in err


@pytest.mark.newest
def test_a_script_that_can_not_be_run(tmp_path: Path) -> None:
    """A missing script and an error at its beginning are told apart."""
    with pytest.raises(
        FileNotFoundError, match=r"there is no script .*gone"
    ):
        shardscope.processes(tmp_path / "gone.py")
    script = tmp_path / "train.py"
    script.write_text("x = 1\nimport no_such_module\n")
    with pytest.raises(
        RuntimeError, match=r"raised at train\.py:2:\nModule"
    ):
        shardscope.processes(script, processes=1, devices=1)


@pytest.mark.newest
def test_arguments_that_are_refused() -> None:
    """The message says what was passed, and what is needed."""
    with pytest.raises(ValueError, match=r"processes >= 1.*processes=0"):
        shardscope.processes(max, processes=0)
    with pytest.raises(ValueError, match=r"timeout > 0 .*timeout=0"):
        shardscope.processes(max, 1, 2, timeout=0)
    with pytest.raises(TypeError, match=r"or the path of a script, .* int"):
        shardscope.processes(3)  # type: ignore[arg-type]
    with (
        socket.socket() as held,
        pytest.raises(TypeError, match="can't be sent to other processes"),
    ):
        shardscope.processes(max, held)


@pytest.mark.newest
def test_no_device_is_used() -> None:
    """The process that calls starts no device of its own."""
    code = (
        "import shardscope\n"
        "shardscope.processes(max, 1, 2, processes=1, devices=1)\n"
        "import sys; assert 'jax' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_message_is_about_lines_of_the_reader() -> None:
    """No line of the libraries or of Shardbook is in the message."""
    with pytest.raises(RuntimeError) as error:
        shardscope.processes(accidents.one_alone, devices=1, seconds=SHORT)

    files = set(re.findall(r"[\w<>./]+\.py", str(error.value)))
    assert files == {"accidents.py"}


@pytest.mark.newest
def test_a_long_error_keeps_its_end() -> None:
    """The end of an error may say what might fix it."""
    words = describe_fate(
        Raised((), f"TypeError: {'x' * 3000} use pcast", "")
    )

    assert words.startswith("raised:\nTypeError: xxx")
    assert words.endswith("xxx use pcast")
    assert "x ... (1,421 characters left out) ... x" in words
