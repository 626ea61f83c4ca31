"""An attempt is a stranger's program: whatever it does, one clear line."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from shardbook import attempts
from shardbook.verdicts import Verdict, verdicts_of
from shardbook.warm import Warm

NAME = "state_zero_kernel"
SECONDS = 20.0


def body(*lines: str, top: str = "") -> str:
    """Give an attempt of these lines, after one of these at the top."""
    inside = "\n".join(f"    {line}" for line in lines)
    return f"{top}\n\ndef {NAME}(seed, x, features):\n{inside}\n"


CYCLE = """
import jax
from flax import nnx


class Node(nnx.Module):
    pass
"""

# What it does, and what must be said: the status, and words of the reason.
HOSTILE = {
    "hangs": (body("while True: pass"), "crashed", "took more than 20 s"),
    "exits": (body("raise SystemExit(0)"), "crashed", "called sys.exit(0)"),
    "exits_hard": (
        body("import os", "os._exit(0)"),
        "crashed",
        "ended with exit status 0",
    ),
    "is_killed": (
        body("import os", "os.kill(os.getpid(), 9)"),
        "crashed",
        "died of SIGKILL",
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
    "prints_a_gigabyte": (
        body(
            "for _ in range(1024):",
            "    print('x' * 2**20)",
            "print('the end')",
            "return 1",
        ),
        "wrong",
        "another type, dtype or shape",
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
    "closes_everything": (
        body("import os, time", "os.closerange(0, 4096)", "time.sleep(90)"),
        "crashed",
        "closed its files and went on",
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
    "replaces_jax": (
        body(
            "import jax.numpy as jnp",
            "jnp.allclose = lambda *args, **kwargs: True",
            "return jnp.ones((*x.shape[:-1], int(features)))",
        ),
        "wrong",
        "it replaced jax.numpy.allclose",
    ),
    "replaces_a_class": (
        body(
            "return 1",
            top="from flax import nnx\n"
            "nnx.Linear.__call__ = lambda self, x: 1",
        ),
        "wrong",
        "it replaced Linear.__call__",
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
    "is_empty": ("", "wrong", f"there is no function {NAME}"),
    "is_no_function": (f"{NAME} = 3\n", "wrong", "there is no function"),
    "takes_other_arguments": (
        f"def {NAME}(seed): pass\n",
        "crashed",
        "takes 1 positional argument but 3 were given",
    ),
    "is_large": ("#" * 2**21, "crashed", "larger than 1,048,576 bytes"),
}


@pytest.fixture(scope="module")
def graded(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[dict[str, Verdict], Path]]:
    """Grade all of them at once, beside one that is right."""
    folder = tmp_path_factory.mktemp("hostile")
    paths = {"right": folder / "right.py"}
    paths["right"].write_text(attempts.solution(NAME))
    for name, (text, _, _) in HOSTILE.items():
        paths[name] = folder / f"{name}.py"
        if isinstance(text, bytes):
            paths[name].write_bytes(text)
        else:
            paths[name].write_text(text)
    paths["is_a_folder"] = folder / "is_a_folder.py"
    paths["is_a_folder"].mkdir()
    paths["is_a_broken_link"] = folder / "is_a_broken_link.py"
    paths["is_a_broken_link"].symlink_to(folder / "nowhere")
    paths["has_vanished"] = folder / "has_vanished.py"
    paths["is_a_pipe"] = folder / "is_a_pipe.py"
    os.mkfifo(paths["is_a_pipe"])
    jobs = [(NAME, "file", str(path), name) for name, path in paths.items()]
    with Warm() as warm:
        found = verdicts_of(warm, jobs, seconds=SECONDS, megabytes=2048)
        yield {verdict.source: verdict for _, verdict in found}, folder


@pytest.mark.parametrize("name", HOSTILE)
def test_one_clear_line(
    graded: tuple[dict[str, Verdict], Path], name: str
) -> None:
    """The status and the reason are right, and nothing of ours shows."""
    verdict = graded[0][name]
    _, status, words = HOSTILE[name]

    assert verdict.status == status, verdict
    assert words in verdict.why, verdict
    assert "shardbook" not in verdict.why
    assert len(verdict.why.splitlines()) <= 2


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("is_a_folder", "Is a directory"),
        ("is_a_broken_link", "No such file"),
        ("has_vanished", "No such file"),
        ("is_a_pipe", "not a regular file"),
    ],
)
def test_what_is_no_file(
    graded: tuple[dict[str, Verdict], Path], name: str, words: str
) -> None:
    """A path that can't be read says so."""
    verdict = graded[0][name]

    assert verdict.status == "crashed"
    assert "the file can't be read: " in verdict.why
    assert words in verdict.why


def test_the_others_are_graded(
    graded: tuple[dict[str, Verdict], Path],
) -> None:
    """A right attempt among them is right."""
    verdict = graded[0]["right"]

    assert verdict.status == "right", verdict


def test_the_last_words_are_kept(
    graded: tuple[dict[str, Verdict], Path],
) -> None:
    """Of a gigabyte, the end."""
    printed = graded[0]["prints_a_gigabyte"].printed

    assert printed.endswith("the end\n")
    assert len(printed) <= 4096


def test_the_time_limit_is_kept(
    graded: tuple[dict[str, Verdict], Path],
) -> None:
    """No attempt was waited for much longer than its time."""
    for verdict in graded[0].values():
        assert verdict.seconds < SECONDS + 5, verdict


LEAVES_BEHIND = body(
    "import os, subprocess, sys, threading, time",
    "threading.Thread(target=time.sleep, args=(600,)).start()",
    "sleep = [sys.executable, '-c', 'import time; time.sleep(600)', MARK]",
    "subprocess.Popen(sleep)",
    "subprocess.Popen(sleep, start_new_session=True)",
    "if os.fork() == 0:",
    "    os.setsid()",
    "    if os.fork() == 0:",
    "        os.execv(sys.executable, sleep)",
    "    os._exit(0)",
    "time.sleep(0.5)",
    "raise ValueError('see what I left')",
    top="MARK = 'left-behind-{}'",
)


def left_behind(mark: str) -> list[int]:
    """Find the processes that carry a mark."""
    found = []
    for process in psutil.process_iter(["pid", "cmdline"]):
        if mark in (process.info["cmdline"] or []):
            found.append(process.pid)
    return found


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    """Threads, children, and orphans in sessions of their own are ended."""
    mark = f"left-behind-{os.getpid()}"
    path = tmp_path / "leaves.py"
    path.write_text(LEAVES_BEHIND.format(os.getpid()))
    jobs = [(NAME, "file", str(path), "leaves")]
    with Warm() as warm:
        ((_, verdict),) = verdicts_of(
            warm, jobs, seconds=SECONDS, megabytes=2048
        )
        deadline = time.monotonic() + 5
        while left_behind(mark) and time.monotonic() < deadline:
            time.sleep(0.1)
        left = left_behind(mark)

    assert "see what I left" in verdict.why
    assert left == []


def test_the_warm_process_ends_with_us() -> None:
    """Nothing of ours is left either, and no folder."""
    warm = Warm()
    process = psutil.Process(warm._process.pid)
    folder = Path(warm._folder)
    warm.close()

    assert not process.is_running()
    assert not folder.exists()


def test_what_has_ended_is_gone() -> None:
    """A warm process may be asked for a long time; it keeps nothing."""
    with Warm() as warm:
        process = psutil.Process(warm._process.pid)
        for _ in range(3):
            running = warm.start("time:sleep", 0.01)
            while not running.poll():
                time.sleep(0.01)
            running.end()
        deadline = time.monotonic() + 10
        # The one that serves us is left.
        while len(process.children()) > 1:
            assert time.monotonic() < deadline, process.children()
            time.sleep(0.1)


def test_a_file_called_jax_is_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What lies beside an attempt is not imported in the place of jax."""
    for name in ("jax.py", "flax.py", "numpy.py", "json.py"):
        (tmp_path / name).write_text(
            "raise RuntimeError('not the real one')"
        )
    path = attempts.start(NAME, tmp_path)
    path.write_text(attempts.solution(NAME))
    before = sorted(tmp_path.iterdir())
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("")
    jobs = [(NAME, "file", str(path), "beside")]
    with Warm() as warm:
        ((_, verdict),) = verdicts_of(
            warm, jobs, seconds=60, megabytes=8192
        )

    assert verdict.status == "right", verdict
    assert sorted(tmp_path.iterdir()) == before


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
    path.write_text(attempts.solution(NAME))
    jobs = [(NAME, "file", str(path), "elsewhere")]
    with Warm() as warm:
        ((_, verdict),) = verdicts_of(
            warm, jobs, seconds=60, megabytes=8192
        )

    assert verdict.status == "right", verdict
