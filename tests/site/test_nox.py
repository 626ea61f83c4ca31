"""The command that builds the book, run as people run it, with kernels."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from building import FRONT, GOOD, cell, run_docs, start_docs, write_book

pytestmark = pytest.mark.exhaustive("nox builds books")

# No home, another locale, settings of JAX.
ENVIRONMENT = {
    "HOME": "/nonexistent",
    "LC_ALL": "POSIX",
    "XLA_FLAGS": "--xla_force_host_platform_device_count=3",
    "JAX_PLATFORMS": "cuda",
    "JAX_NUM_CPU_DEVICES": "1",
    "PYTHONWARNINGS": "ignore",
}
PAGE = GOOD + cell(
    "jax.config.update('jax_platforms', 'cpu')\n"
    "jax.config.update('jax_num_cpu_devices', 8)\n"
    "assert jax.device_count() == 8\n"
    "import os, helper\n"
    "_, flag = os.environ['XLA_FLAGS'].split()\n"
    "assert flag == '--xla_backend_optimization_level=0'\n"
    "print('größer → 大', end='', flush=True)\n"
    "print('.')"
)
# Whose programs are compiled as those of readers are.
USUAL = (
    FRONT.replace("summary:", "xla_flags: ''\nsummary:")
    + GOOD.removeprefix(FRONT)
    + cell(
        "import os\n"
        "assert 'optimization' not in os.environ['XLA_FLAGS']\n"
        "assert os.environ['XLA_FLAGS']"
    )
)
# What this page sets, jax reads as it is imported.
SETS = (
    # Its kernel imports jax in a cell.
    FRONT.replace("timeout: 20", "timeout: 600")
    + cell(
        "import os\n"
        "os.environ |= {'JAX_PLATFORMS': 'cpu', 'XLA_FLAGS': ''}\n"
        "os.environ['JAX_NUM_CPU_DEVICES'] = '5'"
    )
    + GOOD.removeprefix(FRONT)
    + cell("assert jax.device_count() == 5")
)
WARN = "import warnings\nwarnings.warn('x', DeprecationWarning)"
# What takes a kernel, and what the build must say about it. The rest is in
# test_execution.py.
WRONG = {
    "imports_nothing": (
        FRONT + cell("jax.__version__"),
        ["name 'jax' is not defined"],
    ),
    "raises": (GOOD + cell("1 / 0"), ["division by zero"]),
    "hangs": (
        GOOD.replace("timeout: 20", "timeout: 5")
        + cell("import time\ntime.sleep(100)"),
        ["A cell timed out while it was being executed, after 5 seconds"],
    ),
    "dies": (GOOD + cell("import os\nos._exit(0)"), ["KernelDiedError"]),
    "warns": (
        GOOD + cell(WARN) + cell(":tags: [raises-exception]\n1 / 0"),
        [
            "DeprecationWarning: x",
            "code cell 3 raised ZeroDivisionError, and its tags allow that",
        ],
    ),
}


def files(folder: Path) -> set[Path]:
    """List what there is, but for what Python keeps for itself."""
    return {
        path
        for path in folder.rglob("*")
        if not {"__pycache__", ".nox"} & {*path.parts}
    }


def test_a_wrong_book_is_not_there(tmp_path: Path) -> None:
    """The build names each page that fails, and the report on it.

    A book from before stays as it was.
    """
    write_book(tmp_path, {name: page for name, (page, _) in WRONG.items()})
    book = tmp_path / "docs" / "_build" / "html"
    book.mkdir(parents=True)
    (book / ".buildinfo").touch()
    status, said = run_docs(tmp_path)
    reports = map(Path, re.findall(r"traceback saved in: (\S+)", said))

    assert status == 1
    assert "that failed: docs/_build/.html-draft/html" in said
    assert [path.name for path in book.iterdir()] == [".buildinfo"]
    found = {path.name: path.read_text("utf-8") for path in reports}
    assert "division by zero" in found["raises.err.log"]
    assert found.keys() == {f"{n}.err.log" for n in WRONG if n != "warns"}
    for name, (_, words) in WRONG.items():
        assert f"docs/{name}.md" in said
        for part in words:
            assert part in said


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A book in a checkout, with its output in a folder beside it."""
    folder = tmp_path_factory.mktemp("good") / "a book"
    pages = {"page": PAGE, "sets": SETS, "usual": USUAL}
    write_book(folder, pages)
    (folder / "docs" / "helper.py").write_text("answer = 42\n")
    before = files(folder)
    out = folder.parent / "out" / "html"
    # What a build that failed has left.
    (out.parent / ".html-draft" / "html").mkdir(parents=True)
    (out.parent / ".html-draft" / "html" / "old.html").touch()
    options = ("--fresh", "--out", str(out))
    status, words = run_docs(folder, *options, **ENVIRONMENT)
    assert status == 0, words
    # Nothing is written anywhere else; without "--fresh", what is kept.
    assert files(folder) == before
    assert [path.name for path in out.parent.iterdir()] == ["html"]
    return folder


def test_a_good_book(checkout: Path) -> None:
    """The book has pages, and for each a notebook and Markdown."""
    out = checkout.parent / "out" / "html"
    page = (out / "page.html").read_text("utf-8")

    assert not (out / "old.html").exists()
    assert "größer → 大." in page
    assert "The book's 9 cells ran, and " in page
    assert 'href="_sources/page.ipynb"' in page
    assert (out / "_sources" / "page.ipynb").exists()
    assert "größer → 大.\n" in (out / "page.md").read_text("utf-8")


@pytest.fixture
def hanging(
    checkout: Path,
) -> Iterator[tuple[subprocess.Popen[str], psutil.Process]]:
    """A build, and a kernel of it that waits."""
    note = checkout.parent / "pid"
    note.unlink(missing_ok=True)
    (checkout / "docs" / "helper.py").write_text(
        "import os, pathlib, time\n"
        f"pathlib.Path({str(note)!r}).write_text(str(os.getpid()))\n"
        "time.sleep(100)"
    )
    out = checkout.parent / "out" / "html"
    with start_docs(checkout, "--out", str(out)) as build:
        while not note.exists() or not note.read_text():
            assert build.poll() is None, build.communicate()
            time.sleep(0.1)
        yield build, psutil.Process(int(note.read_text()))
        build.kill()


def test_an_interrupt(
    checkout: Path,
    hanging: tuple[subprocess.Popen[str], psutil.Process],
) -> None:
    """An interrupted build leaves the old book, and no process.

    The page runs again although its text is unchanged: the code that it
    imports is another.
    """
    out = checkout.parent / "out" / "html"
    before = (out / "page.html").read_bytes()
    build, kernel = hanging
    started = [*psutil.Process(build.pid).children(recursive=True), kernel]
    # As a terminal does: all of the build gets the signal.
    os.killpg(build.pid, signal.SIGINT)
    words, _ = build.communicate(timeout=600)
    _, alive = psutil.wait_procs(started, timeout=600)

    assert build.returncode != 0, words
    assert not alive
    assert (out / "page.html").read_bytes() == before


def test_a_build_that_is_killed(
    hanging: tuple[subprocess.Popen[str], psutil.Process],
) -> None:
    """No kernel goes on when Sphinx has died without a word."""
    build, kernel = hanging
    (sphinx,) = psutil.Process(build.pid).children()
    server = kernel.parent()
    readers = {*sphinx.children()} - {server}
    sphinx.kill()
    _, alive = psutil.wait_procs([server, kernel], timeout=600)
    # Sphinx leaves them.
    for reader in readers:
        with suppress(psutil.NoSuchProcess):
            reader.kill()

    assert not alive
    assert readers
    assert build.wait(timeout=600) != 0


def test_a_folder_that_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    """The build does not replace a folder that it did not make."""
    write_book(tmp_path, {})
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("precious")
    status, words = run_docs(tmp_path, "--out", "mine")

    assert status == 1
    assert "mine exists, and was not made by this command" in words
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "precious"
