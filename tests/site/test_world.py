"""A build survives what the world does, and leaves nothing half-written."""

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from books import GOOD, cell, run_docs, start_docs, write_book

ON_EIGHT = GOOD + cell(
    "jax.config.update('jax_platforms', 'cpu')\n"
    "jax.config.update('jax_num_cpu_devices', 8)\n"
    "assert jax.device_count() == 8\n"
    "print('größer → 大')"
)


def run_python(
    *arguments: str, cwd: Path, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run Python to its end."""
    return subprocess.run(
        (sys.executable, *arguments),
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def files(folder: Path) -> set[Path]:
    """List what there is, but for what Python keeps for itself."""
    return {
        path
        for path in folder.rglob("*")
        if not {"__pycache__", ".nox"} & {*path.parts}
    }


def test_any_path_and_any_environment(tmp_path: Path) -> None:
    """Blanks and letters, no home, another locale, settings of JAX."""
    folder = tmp_path / "ein schönes Buch, 第一"
    write_book(folder, {"page": ON_EIGHT})
    result = run_docs(
        folder,
        HOME="/nonexistent",
        LC_ALL="POSIX",
        XLA_FLAGS="--xla_force_host_platform_device_count=3",
        JAX_PLATFORMS="cuda",
        JAX_NUM_CPU_DEVICES="1",
        PYTHONWARNINGS="ignore",
    )
    page = folder / "docs/_build/html/page.html"

    assert result.returncode == 0, result.stdout
    assert "größer → 大" in page.read_text("utf-8")


def test_plain_kernels_give_the_same_page(tmp_path: Path) -> None:
    """Where a process can't be forked, a page runs all the same."""
    write_book(tmp_path, {"page": ON_EIGHT})
    warm = run_docs(tmp_path, "--out", str(tmp_path / "warm"))
    settings = tmp_path / "conf.py"
    settings.write_text(settings.read_text("utf-8") + "kernels_warm = 0\n")
    plain = run_docs(tmp_path, "--out", str(tmp_path / "plain"))

    assert (warm.returncode, plain.returncode) == (0, 0), plain.stdout
    assert (tmp_path / "warm/page.html").read_bytes() == (
        tmp_path / "plain/page.html"
    ).read_bytes()


def test_builds_one_after_the_other(tmp_path: Path) -> None:
    """A writer's builds fork their kernels from one warm process."""
    mother = (
        "import psutil; print('from', psutil.Process().parent().ppid())"
    )
    write_book(tmp_path, {"page": GOOD + cell(mother)})
    python = shlex.quote(sys.executable)
    build = f"{python} -m sphinx -q -W -c . -d trees-{{0}} docs html-{{0}}"
    twice = " && ".join(build.format(number) for number in (1, 2))
    result = subprocess.run(
        (
            *(sys.executable, "docs/_extensions/kernels.py"),
            *("sh", "-c", f"{twice}; exit 3"),
        ),
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    first, second = (
        re.search("from ([0-9]+)", page.read_text("utf-8"))[1]
        for page in sorted(tmp_path.glob("html-*/page.html"))
    )

    assert result.returncode == 3, result.stderr
    assert result.stderr == ""
    assert first == second
    assert not psutil.pid_exists(int(first))


def test_a_python_that_is_too_old(tmp_path: Path) -> None:
    """The package, the tasks and the settings say so, in a line."""
    write_book(tmp_path, {})
    wanted = "shardbook needs Python 3.11 or newer; this is Python 3.10.9"
    # All but the number is what it is here.
    older = "import sys; sys.version_info = (3, 10, 9, 'final', 0)"
    run = "import runpy; runpy._run_module_as_main('shardbook')"
    sphinx = "from sphinx.cmd.build import main"
    build = "sys.exit(main(['-c', '.', 'docs', 'html']))"
    for code in (f"{older}; {run}", f"{sphinx}; {older}; {build}"):
        result = run_python("-c", code, cwd=tmp_path)

        assert result.returncode != 0
        assert wanted in result.stderr

    older = tmp_path / "python"
    older.write_text("#!/bin/sh\necho 3.10.9\n")
    older.chmod(0o755)
    result = run_python(
        *("-m", "nox", "--no-venv", "-s", "docs"),
        cwd=tmp_path,
        PATH=f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
    )

    assert "Python >=3.11 is needed; this is 3.10.9" in result.stderr


@pytest.mark.parametrize("name", ["flax", "jax"])
def test_a_package_that_is_too_old(tmp_path: Path, name: str) -> None:
    """The build says which, before it runs a page."""
    write_book(tmp_path / "book", {})
    about = tmp_path / f"{name}-0.4.1.dist-info" / "METADATA"
    about.parent.mkdir()
    about.write_text(f"Name: {name}\nVersion: 0.4.1\n")
    paths = (str(tmp_path), os.environ.get("PYTHONPATH", ""))
    result = run_docs(
        tmp_path / "book", PYTHONPATH=os.pathsep.join(filter(None, paths))
    )

    assert result.returncode != 0
    assert re.search(
        rf"{name}>=[\d.]+ is needed; this is {name} 0.4.1", result.stdout
    )


def test_nothing_is_written_elsewhere(tmp_path: Path) -> None:
    """A checkout may be read-only, if the book goes to another place."""
    checkout = tmp_path / "checkout"
    write_book(checkout, {"page": GOOD})
    before = files(checkout)
    result = run_docs(checkout, "--out", str(tmp_path / "out" / "html"))

    assert result.returncode == 0, result.stdout
    assert files(checkout) == before
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["html"]


def test_a_checkout_that_is_read_only(tmp_path: Path) -> None:
    """The book goes to another place, in a world where no write helps."""
    checkout = tmp_path / "checkout"
    write_book(checkout, {"page": GOOD})
    # In a mount of its own, which not even root can write to.
    freeze = (
        'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && '
        'cd "$0" && ! touch new 2>/dev/null && exec "$@"'
    )
    frozen = ("unshare", "-rm", "sh", "-c", freeze, str(checkout))
    try:
        subprocess.run((*frozen, "true"), check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this system lets no one mount a folder")
    out = tmp_path / "out" / "html"
    result = run_docs(checkout, "--out", str(out), before=frozen)

    assert result.returncode == 0, result.stdout
    assert (out / "page.html").exists()


def test_two_builds_at_once(tmp_path: Path) -> None:
    """Both end well, and one of them is the book."""
    write_book(tmp_path, {"page": GOOD})
    builds = [start_docs(tmp_path) for _ in range(2)]
    outputs = [build.communicate(timeout=300)[0] for build in builds]
    built = tmp_path / "docs" / "_build"

    assert [build.returncode for build in builds] == [0, 0], outputs
    assert [path.name for path in built.iterdir()] == ["html"]
    assert (built / "html" / "page.html").exists()


def test_an_interrupt(tmp_path: Path) -> None:
    """The old book stays, no part of the new one, and no process."""
    write_book(tmp_path, {"page": GOOD})
    assert run_docs(tmp_path).returncode == 0
    page = tmp_path / "docs" / "_build" / "html" / "page.html"
    before = page.read_bytes()
    note = tmp_path / "pid"
    endless = (
        "import os, pathlib, time\n"
        f"pathlib.Path({str(note)!r}).write_text(str(os.getpid()))\n"
        "time.sleep(100)"
    )
    write_book(tmp_path, {"page": GOOD + cell(endless)})
    build = start_docs(tmp_path)
    deadline = time.monotonic() + 60
    while not note.exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    # As a terminal does: all of the build is told.
    os.killpg(build.pid, signal.SIGINT)
    output, _ = build.communicate(timeout=60)
    kernel = int(note.read_text())
    while psutil.pid_exists(kernel) and time.monotonic() < deadline:
        time.sleep(0.1)

    assert build.returncode != 0, output
    assert not psutil.pid_exists(kernel)
    assert page.read_bytes() == before
    assert [p.name for p in page.parents[1].iterdir()] == ["html"]


def test_a_full_disk(tmp_path: Path) -> None:
    """The old book stays, and no part of the new one."""
    write_book(tmp_path, {"page": GOOD})
    assert run_docs(tmp_path).returncode == 0
    page = tmp_path / "docs" / "_build" / "html" / "page.html"
    before = page.read_bytes()
    # From here on, no file can grow: as if there were no room.
    full = (
        "import resource as r\nr.setrlimit(r.RLIMIT_FSIZE, (9999, 9999))\n"
    )
    settings = tmp_path / "conf.py"
    settings.write_text(full + settings.read_text("utf-8"))
    result = run_docs(tmp_path)

    assert result.returncode != 0
    assert "File too large" in result.stdout
    assert page.read_bytes() == before
    assert [p.name for p in page.parents[1].iterdir()] == ["html"]
