"""Small books, built with the settings and the command of the real one."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
MACHINERY = (
    "conf.py",
    "noxfile.py",
    "pyproject.toml",
    "docs/_extensions",
    "docs/_inv",
    "docs/_jupyter",
    "docs/_static",
    "docs/_templates",
)
FRONT = """\
---
file_format: mystnb
kernelspec: {name: python3, display_name: Python 3, language: python}
mystnb: {execution_timeout: 10}
---

# Title
"""


def cell(code: str) -> str:
    """Give the Markdown of a code cell."""
    return f"\n```{{code-cell}} python\n{code}\n```\n"


GOOD = FRONT + cell(
    "import flax, jax\n"
    "print(f'jax {jax.__version__}, flax {flax.__version__}, 8 devices')"
)


def start_docs(
    folder: Path,
    *arguments: str,
    before: Sequence[str] = (),
    **environment: str,
) -> subprocess.Popen[str]:
    """Start "nox -s docs" in a folder, without making an environment.

    Args:
        folder: The folder of a book.
        *arguments: What stands behind "--".
        before: A command that runs the one that follows it.
        **environment: What else it is told.
    """
    # "python" must be the one that runs the tests.
    bin_folder = str(Path(sys.executable).parent)
    path = os.pathsep.join([bin_folder, os.environ["PATH"]])
    nox = (sys.executable, "-m", "nox", "--no-venv", "--no-install")
    return subprocess.Popen(
        (*before, *nox, "-s", "docs", "--", *arguments),
        cwd=folder,
        env={**os.environ, "PATH": path, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def run_docs(
    folder: Path, *arguments: str, **how: Any
) -> subprocess.CompletedProcess[str]:
    """Run "nox -s docs" in a folder, to its end."""
    process = start_docs(folder, *arguments, **how)
    try:
        output, _ = process.communicate(timeout=300)
    finally:
        process.kill()
    return subprocess.CompletedProcess(
        process.args, process.returncode, output
    )


def write_book(folder: Path, pages: dict[str, str]) -> None:
    """Write a book of these pages, beside a front page that is good."""
    for name in MACHINERY:
        source, target = ROOT / name, folder / name
        target.parent.mkdir(exist_ok=True, parents=True)
        if source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True)
        else:
            shutil.copyfile(source, target)
    contents = "\n".join(pages)
    front = f"{GOOD}\n```{{toctree}}\n{contents}\n```\n"
    for name, text in {**pages, "index": front}.items():
        (folder / "docs" / f"{name}.md").write_text(text, encoding="utf-8")
