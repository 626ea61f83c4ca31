"""The command that builds the book, run as people run it, with kernels."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from building import GOOD, ROOT, cell, run_docs, start_docs, write_book

# Blanks and letters in the path, no home, another locale, settings of JAX.
FOLDER = "ein schönes Buch, 第一"
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
    "import helper\n"
    "print('größer → 大', end='', flush=True)\n"
    "print('.')"
)
# A page, and what the build must say about it.
WRONG = {
    "raises": (GOOD + cell("1 / 0"), "division by zero"),
    "hangs": (
        GOOD + cell("import time\ntime.sleep(100)"),
        "A cell timed out while it was being executed, after 10 seconds",
    ),
    "dies": (GOOD + cell("import os\nos._exit(0)"), "KernelDiedError"),
    "expects_an_error": (
        GOOD + cell(":tags: [raises-exception]\n1 / 0"),
        "code cell 2 raised ZeroDivisionError, and its tags allow that",
    ),
    "deprecated": (
        GOOD
        + cell("import warnings\nwarnings.warn('x', DeprecationWarning)"),
        "DeprecationWarning: x",
    ),
}


def files(folder: Path) -> set[Path]:
    """List what there is, but for what Python keeps for itself."""
    return {
        path
        for path in folder.rglob("*")
        if not {"__pycache__", ".nox"} & {*path.parts}
    }


@pytest.fixture(scope="module")
def failed(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[int, str, Path]:
    """The status and the words of one build of all the wrong pages."""
    folder = tmp_path_factory.mktemp("wrong")
    write_book(folder, {name: page for name, (page, _) in WRONG.items()})
    return *run_docs(folder), folder


@pytest.mark.parametrize("name", WRONG)
def test_a_page_that_fails_is_named(
    failed: tuple[int, str, Path], name: str
) -> None:
    """The build names a page whose cell fails, and says how it failed."""
    words = failed[1]

    assert f"docs/{name}.md" in words
    assert WRONG[name][1] in words


def test_a_wrong_book_is_not_there(failed: tuple[int, str, Path]) -> None:
    """The build fails, and leaves nothing that looks like a book."""
    status, _, folder = failed

    assert status == 1
    assert [*(folder / "docs" / "_build").iterdir()] == []


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A book in a checkout, with its output in a folder beside it."""
    folder = tmp_path_factory.mktemp("good") / FOLDER
    write_book(folder, {"page": PAGE})
    (folder / "docs" / "helper.py").write_text("answer = 42\n")
    before = files(folder)
    out = folder.parent / "out" / "html"
    status, words = run_docs(folder, "--out", str(out), **ENVIRONMENT)
    assert status == 0, words
    # Nothing is written anywhere else.
    assert files(folder) == before
    assert [path.name for path in out.parent.iterdir()] == ["html"]
    return folder


def test_a_good_book(checkout: Path) -> None:
    """The book has pages, and for each a notebook and Markdown."""
    out = checkout.parent / "out" / "html"
    page = (out / "page.html").read_text("utf-8")

    assert "größer → 大." in page
    assert "The book's 6 cells ran, and " in page
    assert 'href="_sources/page.ipynb"' in page
    assert (out / "_sources" / "page.ipynb").exists()
    assert "größer → 大.\n" in (out / "page.md").read_text("utf-8")


def test_an_interrupt(checkout: Path) -> None:
    """An interrupted build leaves the old book, and no process.

    The page runs again although its text is unchanged: the code that it
    imports is another.
    """
    out = checkout.parent / "out" / "html"
    before = (out / "page.html").read_bytes()
    note = checkout.parent / "pid"
    (checkout / "docs" / "helper.py").write_text(
        "import os, pathlib, time\n"
        f"pathlib.Path({str(note)!r}).write_text(str(os.getpid()))\n"
        "time.sleep(100)"
    )
    build = start_docs(checkout, "--out", str(out))
    while not note.exists() or not note.read_text():
        assert build.poll() is None, build.communicate()
        time.sleep(0.1)
    kernel = psutil.Process(int(note.read_text()))
    # As a terminal does: all of the build gets the signal.
    os.killpg(build.pid, signal.SIGINT)
    words, _ = build.communicate(timeout=600)
    psutil.wait_procs([kernel], timeout=600)

    assert build.returncode != 0, words
    assert not kernel.is_running()
    assert (out / "page.html").read_bytes() == before
    assert [path.name for path in out.parent.iterdir()] == ["html"]


def test_a_folder_that_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    """The build does not replace a folder that it did not make."""
    write_book(tmp_path, {})
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("precious")
    status, words = run_docs(tmp_path, "--out", "mine")

    assert status == 1
    assert "mine exists, and was not made by this command" in words
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "precious"


def test_a_python_that_is_too_old() -> None:
    """The package says which Python it needs, in a line."""
    older = "import sys; sys.version_info = (3, 10, 9, 'final', 0)"
    run = "import runpy; runpy._run_module_as_main('shardbook')"
    result = subprocess.run(
        [sys.executable, "-c", f"{older}; {run}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )

    assert result.returncode != 0
    assert "needs Python 3.11 or newer; this is Python 3.10.9" in (
        result.stderr
    )
