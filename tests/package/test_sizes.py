"""Of a problem that has changed, all tests run."""

import subprocess
from pathlib import Path

from sizes import changed_problems


def test_changed_problems(tmp_path: Path) -> None:
    """Without a remote, since the commit before; with one, since then."""
    here, there = tmp_path / "here", tmp_path / "there"
    settings = ("-c", "user.name=A", "-c", "user.email=a@b.c")

    def git(*arguments: str) -> None:
        command = ("git", *settings, *arguments)
        subprocess.run(command, cwd=here, check=True, capture_output=True)

    def write(name: str) -> None:
        (here / name).write_text("x")
        changed_problems.cache_clear()

    here.mkdir()
    git("init", "--initial-branch=main")
    for name in ("place_batch.py", "test_clip_local.py"):
        write(name)
        git("add", ".")
        git("commit", "--message", name)
    write("auto_mesh.md")
    assert changed_problems(here) == ["auto_mesh", "clip_local"]

    git("clone", "--bare", ".", str(there))
    git("remote", "add", "origin", str(there))
    git("fetch", "origin")
    git("remote", "set-head", "origin", "main")
    changed_problems.cache_clear()
    assert changed_problems(here) == ["auto_mesh"]

    changed_problems.cache_clear()
    assert changed_problems(tmp_path) == []
