"""Whatever an attempt does, its verdict is one clear line."""

import os
import tempfile
import time
from functools import partial
from pathlib import Path

import psutil
import pytest
from sizes import all_but, selected

from shardgrade.grading.progress import LISTENER, tell
from shardgrade.grading.verdict import Verdict
from shardgrade.jobs.environment import grading_environment
from shardgrade.jobs.job import Job, open_sandbox, verdicts_of
from shardgrade.jobs.sandbox import (
    Call,
    Limits,
    Sandbox,
    Then,
    at_once,
)
from shardgrade.reader import attempt_files

pytestmark = pytest.mark.newest

NAME = "state_zero_kernel"
LIMITS = Limits(seconds=5, megabytes=2048)


def body(*lines: str, top: str = "") -> str:
    """Give an attempt of these lines, after one of these at the top."""
    inside = "\n".join(f"    {line}" for line in lines)
    return f"{top}\n\ndef {NAME}(seed, x, features):\n{inside}\n"


def grade(sandbox: Sandbox, path: Path) -> Verdict:
    """Grade one attempt."""
    (verdict,) = verdicts_of(sandbox, [Job(NAME, path.name, path)])
    return verdict


def family(sandbox: Sandbox) -> set[psutil.Process]:
    """Find what the server of a sandbox has started."""
    server = psutil.Process(sandbox._server().process.pid)
    return {*server.children(recursive=True)}


CYCLE = """
import jax
from flax import nnx


class Node(nnx.Module):
    pass
"""

SOLUTION = attempt_files.solution(NAME)
CONFIG = "import jax\njax.config.update('jax_{}', {!r})\n".format

# The text of an attempt, or what makes its file; and what must be said of
# it: the status, and words of the reason.
HOSTILE = {
    "hangs": (
        body("while True: pass"),
        "crashed",
        "it used more than 5 s of CPU time\n(line 4)",
    ),
    "hangs_as_it_is_loaded": (
        "while True: pass\n",
        "crashed",
        "it used more than 5 s of CPU time\n(line 1)",
    ),
    "loops_in_jit": (
        body(
            "import jax",
            "jax.jit(lambda n: jax.lax.while_loop(",
            "    lambda n: n >= 0, lambda n: (n + 1) % 7, n",
            "))(1).block_until_ready()",
        ),
        "crashed",
        "its process used more than 5 s of CPU time",
    ),
    "takes_most_errors": (
        body("while True:", "    try: 1 / 0", "    except Exception: pass"),
        "crashed",
        "it used more than 5 s of CPU time\n(line ",
    ),
    "has_a_child_that_hangs": (
        body("import os", "os.system('while :; do :; done')"),
        "crashed",
        "its process used more than 5 s of CPU time",
    ),
    "sleeps": (
        body("import time", "time.sleep(600)"),
        "crashed",
        "it hardly used the CPU for 5 s\n(line 5)",
    ),
    "forks_without_end": (
        body("import os", "while True: os.fork()"),
        "crashed",
        "its process started more than 256 processes",
    ),
    "kills_its_parent": (
        body("import os", "os.kill(os.getppid(), 9)", "while True: pass"),
        "crashed",
        "its process and the one that watches over it were killed",
    ),
    "kills_the_server": (
        "import os, psutil\n"
        f"psutil.Process(os.getppid()).parent().kill()\n{SOLUTION}",
        "right",
        "",
    ),
    "exits": (body("raise SystemExit(0)"), "crashed", "called sys.exit(0)"),
    "exits_hard": (
        body("import os", "os._exit(0)"),
        "crashed",
        "ended with exit status 0",
    ),
    "crashes_python": (
        body("import ctypes", "ctypes.string_at(0)"),
        "crashed",
        "died of SIGSEGV",
    ),
    "recurses": (
        body(f"return {NAME}(seed, x, features)"),
        "crashed",
        "RecursionError",
    ),
    "makes_a_cycle": (
        body(
            "node = Node()",
            "node.me = node",
            "return jax.tree.map(lambda leaf: leaf, node)",
            top=CYCLE,
        ),
        "crashed",
        "RecursionError",
    ),
    "closes_its_output": (
        body(
            "import os",
            "os.close(1)",
            "os.close(2)",
            "print(1, flush=True)",
        ),
        "crashed",
        "Bad file descriptor",
    ),
    "eats_memory": (
        body("hoard = []", "while True: hoard.append(bytearray(2**26))"),
        "crashed",
        "MemoryError",
    ),
    "leaves_the_folder": (
        body("import os", "os.chdir('/')", "return 1"),
        "wrong",
        "another type, dtype or shape",
    ),
    "hides_warnings": (
        body(
            "from flax import nnx",
            "warnings.simplefilter('ignore')",
            "model = nnx.Linear(x.shape[-1], int(features),"
            " rngs=nnx.Rngs(int(seed)))",
            "model.bias.value = jnp.ones_like(model.bias.value)",
            "graphdef, state = nnx.split(model)",
            "state['kernel'][...] = jnp.zeros_like(state['kernel'][...])",
            "return nnx.merge(graphdef, state)(x)",
            top="import warnings\nimport jax.numpy as jnp",
        ),
        "wrong",
        "jax or flax warns",
    ),
    "does_not_parse": ("def f(:\n", "crashed", "SyntaxError"),
    "is_not_utf8": (b"x = '\xff\xfe'\n", "crashed", "SyntaxError"),
    "has_null_bytes": (b"x = 1\x00\n", "crashed", "null bytes"),
    "is_utf16": (
        SOLUTION.encode("utf-16"),
        "crashed",
        "as UTF-16 does: save it as UTF-8",
    ),
    "is_empty": ("", "wrong", f"there is no function {NAME}"),
    "is_no_function": (f"{NAME} = 3\n", "wrong", "there is no function"),
    "takes_other_arguments": (
        f"def {NAME}(seed): pass\n",
        "crashed",
        "takes 1 positional argument but 3 were given",
    ),
    "is_large": ("#" * 2**21, "crashed", "larger than 1,048,576 bytes"),
    "is_a_folder": (Path.mkdir, "crashed", "can't be read: Is a directory"),
    "has_vanished": (
        lambda path: None,
        "crashed",
        "can't be read: No such file",
    ),
    "leaves_a_search_for_nan": (
        f"{CONFIG('debug_nans', True)}{SOLUTION}",
        "crashed",
        "FloatingPointError: invalid value (nan)",
    ),
    "leaves_a_transfer_guard": (
        f"{CONFIG('transfer_guard', 'disallow')}{SOLUTION}",
        "crashed",
        "Disallowed host-to-device transfer",
    ),
    "leaves_x64": (f"{CONFIG('enable_x64', True)}{SOLUTION}", "right", ""),
    "leaves_a_mesh": (
        "import jax\nauto = (jax.sharding.AxisType.Auto,)\n"
        f"jax.set_mesh(jax.make_mesh((8,), ('model',), auto))\n{SOLUTION}",
        "right",
        "",
    ),
    "donates_x": (
        body(
            "jax.jit(lambda x: x + 1, donate_argnums=0)(x)",
            "return x",
            top="import jax",
        ),
        "crashed",
        "deleted or donated",
    ),
    "warns_of_its_own": (
        f"import warnings\nS = '\\.'\n{SOLUTION}\n"
        "warnings.warn('old', DeprecationWarning)\n",
        "right",
        "",
    ),
    "is_right": (SOLUTION, "right", ""),
}


# The others take as long as all tests that are not exhaustive.
MAIN = ("hangs", "exits", "exits_hard", "eats_memory", "is_right")


@pytest.fixture(scope="module")
def graded(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Verdict]:
    """Grade those whose tests are selected, at once."""
    folder = tmp_path_factory.mktemp("hostile")
    jobs = []
    for name in HOSTILE.keys() & selected(request, "name"):
        make = HOSTILE[name][0]
        path = folder / f"{name}.py"
        if callable(make):
            make(path)
        elif isinstance(make, bytes):
            path.write_bytes(make)
        else:
            path.write_text(make)
        jobs.append(Job(NAME, name, path, limits=LIMITS))
    with open_sandbox() as sandbox:
        found = verdicts_of(sandbox, jobs)
        return {verdict.source: verdict for verdict in found}


@pytest.mark.parametrize(
    "name", all_but(MAIN, HOSTILE, "other accidents end in the same ways")
)
def test_one_clear_line(graded: dict[str, Verdict], name: str) -> None:
    """The status and the reason are right, and nothing of ours shows."""
    verdict = graded[name]
    _, status, words = HOSTILE[name]

    assert verdict.status == status, verdict
    assert words in verdict.why, verdict
    assert "shardbook" not in verdict.why
    for part, most in (
        ("CPU", "at most 5 s; --seconds allows more"),
        ("Memory", "at most 2,048 MiB of memory; --megabytes allows more"),
    ):
        assert (verdict.expected == most) == (part in words)
    # An end that gives no line names the call that it was in.
    if words.startswith(("ended with", "died")):
        assert verdict.case == "1 of 15"
        assert verdict.call.endswith(f"{NAME}(0.0, normal(4), 16.0)")
    # Of a syntax error, the line and its mark are shown too.
    lines = 4 if "SyntaxError" in words else 2
    assert len(verdict.why.splitlines()) <= lines


LEAVES_BEHIND = body(
    "import os, subprocess, sys, threading, time",
    "threading.Thread(target=time.sleep, args=(600,)).start()",
    "sleep = [sys.executable, '-c', SLEEP, MARK]",
    "subprocess.Popen(sleep)",
    "subprocess.Popen(sleep, start_new_session=True)",
    "if os.fork() == 0:",
    "    os.setsid()",
    "    if os.fork() == 0:",
    "        os.execv(sys.executable, sleep)",
    "    os._exit(0)",
    "while len(os.listdir()) < 3: time.sleep(0.01)",
    "raise ValueError('see what I left')",
    top="MARK = 'left-behind-{}'\n"
    "SLEEP = 'import os, time; os.mkdir(str(os.getpid()));"
    " time.sleep(600)'",
)


def test_nothing_is_left_behind(sandbox: Sandbox, tmp_path: Path) -> None:
    """Threads, children, and orphans in sessions of their own are ended."""
    mark = f"left-behind-{os.getpid()}"
    path = tmp_path / "leaves.py"
    path.write_text(LEAVES_BEHIND.format(os.getpid()))
    verdict = grade(sandbox, path)
    left = [
        process
        for process in psutil.process_iter(["cmdline"])
        if mark in (process.info["cmdline"] or [])
    ]

    assert "see what I left" in verdict.why, verdict
    assert left == []


@pytest.mark.exhaustive("it waits for seconds")
def test_a_sandbox_ends_its_processes_and_removes_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call that runs is ended when its sandbox is closed."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with open_sandbox() as sandbox:
        begun = tmp_path / "begun"
        done = sandbox.call(partial(os.system, "true"))
        running = sandbox.start(
            partial(os.system, f"touch {begun}; sleep 60")
        )
        while not begun.exists():
            assert running.wait(0.01) is None
        server = psutil.Process(sandbox._server().process.pid)
        started = [server, *family(sandbox)]
    begun.unlink()

    assert len(started) >= 3
    assert psutil.wait_procs(started, timeout=0)[1] == []
    assert [*tmp_path.iterdir()] == []
    assert done.ending == "returned"
    with pytest.raises(OSError, match="the process that grades has ended"):
        running.outcome()


def test_a_sandbox_keeps_no_process_of_a_call_that_has_ended(
    sandbox: Sandbox,
) -> None:
    """A sandbox that has ended a call is left with its server alone."""
    server, before = sandbox._server().process, family(sandbox)
    sandbox.call(partial(time.sleep, 0))
    others = family(sandbox) - before

    assert psutil.wait_procs(others, timeout=30)[1] == []
    assert server.poll() is None


def test_a_call_that_is_given_up(sandbox: Sandbox) -> None:
    """Who started a call can wait for a while, and end it."""
    before = family(sandbox)
    with sandbox.start(partial(time.sleep, 600)) as running:
        outcome = running.wait(3)
        others = family(sandbox) - before

    assert outcome is None
    assert len(others) >= 2
    assert psutil.wait_procs(others, timeout=30)[1] == []


def goes_on() -> Then[int]:
    """Return a call that tells whether its process is another."""
    os.umask(0o123)
    print("begins", flush=True)
    return Then(partial(os.umask, 0))


def test_a_call_that_goes_on_in_another_process(sandbox: Sandbox) -> None:
    """A fresh process makes the call that a call returns."""
    fresh = sandbox.call(partial(os.umask, 0)).value
    outcome = sandbox.call(goes_on)

    assert outcome.value == fresh != 0o123
    assert outcome.output == "begins\n"


def tells(then: Call[object]) -> object:
    """Tell twice how far this call has come, and then make another."""
    print("before", flush=True)
    tell("case 1 of 2")
    tell("case 2 of 2")
    return then()


def closes_its_files() -> str:
    """Tell something that can't arrive, and return what can't either."""
    os.closerange(3, 256)
    tell("case 3 of 2")
    print("goes on", flush=True)
    return "lost"


@pytest.mark.parametrize(
    ("then", "value", "ending", "words"),
    [
        (partial(str, "done"), "done", "returned", "before"),
        (partial(os.abort), None, "died of SIGABRT", "before"),
        (partial(tell, "now"), None, "returned", "before"),
        (closes_its_files, None, "ended with exit status 70", "goes on"),
    ],
)
def test_a_call_tells_how_far_it_has_come(
    sandbox: Sandbox,
    then: Call[object],
    value: str | None,
    ending: str,
    words: str,
) -> None:
    """Words come as they are told, and the outcome is as without them."""
    told: list[str] = []
    outcome = sandbox.call(partial(tells, then), told=told.append)

    assert told[:2] == ["case 1 of 2", "case 2 of 2"]
    assert told[2:] == ["now"] * (ending == "returned" and not value)
    assert (outcome.value, outcome.ending) == (value, ending)
    assert words in outcome.output


def test_a_call_that_no_worker_makes_tells_no_one() -> None:
    """A job can be called where no one listens."""
    heard: list[str] = []
    tell("case 1 of 2")
    token = LISTENER.set(heard.append)
    tell("case 2 of 2")
    LISTENER.reset(token)

    assert heard == ["case 2 of 2"]


def test_the_cases_of_an_attempt_are_told(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    """Grading tells each case as it begins, those on other devices too."""
    name = "tree_mode_shard_map"
    path = tmp_path / f"{name}.py"
    path.write_text(attempt_files.solution(name))
    told: list[str] = []
    job = Job(name, path.name, path)
    (verdict,) = verdicts_of(sandbox, [job], told.append)
    cases = [words for words in told if words.startswith("case ")]

    assert verdict.right, verdict
    there = [words for words in cases if words.endswith(" on 12 devices")]
    counts = len(cases) - len(there), len(there)
    assert min(counts) > 0
    assert cases == [
        f"case {number} of {count}{where}"
        for count, where in zip(counts, ("", " on 12 devices"), strict=True)
        for number in range(1, count + 1)
    ]


def test_outcomes_come_in_the_order_of_the_calls(sandbox: Sandbox) -> None:
    """at_once() keeps the order, however long each call takes."""
    words = ("sleep 0.2", "true", "kill $PPID", "true")
    calls = [partial(os.system, each) for each in words]
    outcomes = list(at_once(sandbox.call, calls))

    assert [outcome.ending for outcome in outcomes] == [
        "returned",
        "returned",
        "died of SIGTERM",
        "returned",
    ]


def test_how_long_a_call_took(sandbox: Sandbox) -> None:
    """An outcome has the time of the call, as a clock on the wall has."""
    outcome = sandbox.call(partial(time.sleep, 1.5))

    assert 1.5 <= outcome.seconds < 10


SLOWLY = """
import time

end = time.monotonic() + 5
while time.monotonic() < end:
    sum(range(10**6))
    time.sleep(0.1)
"""


@pytest.mark.exhaustive("it waits for seconds")
def test_a_call_may_take_longer_than_its_cpu_time(
    sandbox: Sandbox,
) -> None:
    """A call that shares the CPU with others has the time that it needs."""
    outcome = sandbox.call(partial(exec, SLOWLY), Limits(seconds=3))

    assert outcome.ending == "returned", outcome
    assert outcome.seconds > 3


@pytest.mark.exhaustive("it starts another server")
def test_a_file_called_jax_is_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file jax.py beside an attempt is not imported in place of jax."""
    for name in ("jax.py", "flax.py", "numpy.py", "json.py"):
        (tmp_path / name).write_text(
            "raise RuntimeError('not the real one')"
        )
    path = attempt_files.start(NAME, tmp_path)
    path.write_text(attempt_files.solution(NAME))
    before = sorted(tmp_path.iterdir())
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("")
    with open_sandbox() as sandbox:
        verdict = grade(sandbox, path)

    assert verdict.status == "right", verdict
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.exhaustive("it starts another server")
def test_the_environment_of_the_reader_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Devices, dtypes and warnings are as the checks need them."""
    for name, value in {
        "XLA_FLAGS": "--xla_force_host_platform_device_count=3",
        "JAX_PLATFORMS": "cuda",
        "JAX_ENABLE_X64": "1",
        "JAX_NUM_CPU_DEVICES": "1",
        "JAX_DISABLE_JIT": "1",
        "NNX_GRAPH_MODE": "false",
        "PYTHONWARNINGS": "error",
        "PYTHONOPTIMIZE": "2",
    }.items():
        monkeypatch.setenv(name, value)
    path = tmp_path / f"{NAME}.py"
    path.write_text(attempt_files.solution(NAME))
    with open_sandbox() as sandbox:
        verdict = grade(sandbox, path)

    assert verdict.status == "right", verdict


@pytest.mark.exhaustive("a rare accident")
def test_a_large_cache_is_emptied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compiled programs are removed if they are too many, nothing else."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("shardgrade.jobs.environment.LARGEST_CACHE", 8)
    cache = tmp_path / "shardbook" / "jax"
    cache.mkdir(parents=True)
    for name in ("a-cache", "b-cache", "c"):
        (cache / name).write_bytes(b"1234")
    environment = grading_environment()
    kept = len([*cache.iterdir()])
    (cache / "d-cache").write_bytes(b"1")
    grading_environment()

    assert environment["JAX_COMPILATION_CACHE_DIR"] == str(cache)
    assert kept == 3
    assert [path.name for path in cache.iterdir()] == ["c"]


@pytest.mark.exhaustive("a rare accident")
def test_a_broken_cache_is_emptied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of programs that were written in part, none is left."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = tmp_path / f"{NAME}.py"
    path.write_text(attempt_files.solution(NAME))
    cache = tmp_path / "shardbook" / "jax"
    with open_sandbox() as sandbox:
        grade(sandbox, path)
        for program in cache.glob("*-cache"):
            program.write_bytes(program.read_bytes()[:100])
        verdict = grade(sandbox, path)

    assert verdict.right, verdict
    assert min(each.stat().st_size for each in cache.glob("*-cache")) > 100


def test_temporary_files_of_a_call_do_not_stay(sandbox: Sandbox) -> None:
    """What a call leaves in a temporary folder goes as the call ends."""
    before = family(sandbox)
    made = sandbox.call(tempfile.mkdtemp)
    psutil.wait_procs(family(sandbox) - before, timeout=30)

    assert made.ending == "returned"
    assert not Path(str(made.value)).exists()
