"""What works on systems that we don't have, with what they lack gone."""

import subprocess
import sys
from pathlib import Path

import pytest

from shardgrade.jobs import sandbox
from shardgrade.jobs.job import Job, open_sandbox, verdicts_of
from shardgrade.reader import attempt_files

NAME = "auto_mesh"
# The modules that decide by the system they run on are imported before.
WINDOWS = """\
import asyncio, os, psutil, runpy, signal, subprocess, sys

for name in ("fork", "forkpty", "killpg", "posix_spawn", "setsid"):
    delattr(os, name)
there = {"SIGABRT", "SIGFPE", "SIGILL", "SIGINT", "SIGSEGV", "SIGTERM"}
for number in signal.Signals:
    if number.name not in there:
        delattr(signal, number.name)
for name in ("fcntl", "grp", "pty", "pwd", "resource", "termios", "tty"):
    sys.modules[name] = None
"""
COMMAND = "runpy._run_module_as_main('shardgrade')"
TOOLS = """\
import jax.numpy as jnp, shardgrade, shardscope

x = jnp.ones(8)
print(shardscope.layout({"x": x}))
print(shardscope.program(jnp.sin, x))
print(shardscope.draw({"x": x}))
for refused in (
    lambda: shardscope.processes("train.py"),
    lambda: shardgrade.check(auto_mesh),
):
    try:
        refused()
    except OSError as error:
        print(error)
"""
# What supervisors do without on macOS: adopting what a worker leaves, and
# a limit of memory.
MACOS = """\
supervisor._prctl = lambda *_: None
real = supervisor.resource.setrlimit
def setrlimit(which, limits):
    if which == supervisor.resource.RLIMIT_AS:
        raise ValueError("current limit exceeds maximum limit")
    real(which, limits)
supervisor.resource.setrlimit = setrlimit
"""


def on_windows(folder: Path, code: str, *arguments: str) -> tuple[int, str]:
    """Run code where there is neither os.fork nor what comes with it."""
    done = subprocess.run(
        (sys.executable, "-P", "-c", f"{WINDOWS}\n{code}", *arguments),
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=120,
    )
    return done.returncode, done.stdout


def test_windows_lists_and_starts(tmp_path: Path) -> None:
    """What grades nothing works, and grading is refused in words."""
    listed = on_windows(tmp_path, COMMAND, "list")
    started = on_windows(tmp_path, COMMAND, "start", NAME)
    refused = on_windows(tmp_path, COMMAND, "check", NAME)

    assert (listed[0], started[0], refused[0]) == (0, 0, 2), refused
    assert "Traceback" not in refused[1]
    words = " ".join(refused[1].split())
    assert "Can't grade: grading needs os.fork" in words
    assert "Windows Subsystem for Linux" in words


def test_windows_reports(tmp_path: Path) -> None:
    """The tools report there, and what needs processes says why not."""
    solution = attempt_files.solution(NAME)
    status, shown = on_windows(tmp_path, f"{solution}\n{TOOLS}")

    assert status == 0, shown
    assert "float32[8]" in shown
    assert "processes() needs POSIX signals; on Windows" in shown
    assert "grading needs os.fork" in shown


def test_macos_grades(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An attempt is graded where no parent adopts what it leaves."""
    *boot, serve = map(str.strip, sandbox.BOOT.split(";"))
    monkeypatch.setattr(sandbox, "BOOT", "\n".join([*boot, MACOS, serve]))
    path = tmp_path / f"{NAME}.py"
    path.write_text(attempt_files.solution(NAME))
    with open_sandbox() as opened:
        (verdict,) = verdicts_of(opened, [Job(NAME, NAME, path)])

    assert verdict.right, verdict
