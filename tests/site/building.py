"""Small books, built here without a kernel, or by nox as people do."""

import io
import os
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from nbformat import NotebookNode, v4
from sphinx.application import Sphinx
from sphinx.util.console import nocolor
from sphinx.util.docutils import docutils_namespace, patch_docutils

# Builds a book, and gives what was said and the folder of the pages.
Build = Callable[..., tuple[str, Path]]
ROOT = Path(__file__).parents[2]
# What a book has of the real one, beside its pages.
MACHINERY = (
    "conf.py",
    "noxfile.py",
    "pyproject.toml",
    "docs/_inv",
    "docs/_jupyter",
    "docs/_static",
    "docs/_templates",
)
FRONT = """\
---
file_format: mystnb
kernelspec: {name: python3, display_name: Python 3, language: python}
mystnb: {execution_timeout: 20}
summary: A page about nothing.
---

# Title
"""


def cell(code: str) -> str:
    """Return the Markdown of a code cell."""
    return f"\n```{{code-cell}} python\n{code}\n```\n"


GOOD = FRONT + cell(
    "import flax, jax\n"
    "print(f'jax {jax.__version__}, flax {flax.__version__}, 8 devices')"
)
# What shardbook_site.pages fixes, which it warns of where there is none.
FRONT_PAGE = """
| | two |
|---|---|
| 1 | 2 |

```{code-cell} python
:tags: [hide-input]
assert True
```

```{toctree}
reference/part
CONTENTS
```
"""
PART = "# Part\n\n```{toctree}\nleaf\n```\n"


def write_book(folder: Path, pages: dict[str, str]) -> None:
    """Write a book of these pages, beside some that are good."""
    for name in MACHINERY:
        source, target = ROOT / name, folder / name
        target.parent.mkdir(exist_ok=True, parents=True)
        if source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True)
        else:
            shutil.copyfile(source, target)
    book = {
        "index": GOOD + FRONT_PAGE.replace("CONTENTS", "\n".join(pages)),
        # The reference has nothing to run.
        "reference/part": PART,
        "reference/leaf": "# Leaf\n",
        **pages,
    }
    for name, text in book.items():
        path = folder / "docs" / f"{name}.md"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")


def start_docs(
    folder: Path, *arguments: str, **environment: str
) -> subprocess.Popen[str]:
    """Start "nox -s docs" in a folder, without making an environment."""
    # "python" must be the one that runs the tests.
    bin_folder = str(Path(sys.executable).parent)
    path = os.pathsep.join([bin_folder, os.environ["PATH"]])
    nox = [sys.executable, "-m", "nox", "--no-venv", "--no-install"]
    return subprocess.Popen(
        [*nox, "-s", "docs", "--", *arguments],
        cwd=folder,
        env={**os.environ, "PATH": path, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def run_docs(
    folder: Path, *arguments: str, **environment: str
) -> tuple[int, str]:
    """Run "nox -s docs" to its end; return its status and its words."""
    process = start_docs(folder, *arguments, **environment)
    try:
        words, _ = process.communicate(timeout=600)
    finally:
        process.kill()
    return process.returncode, words


def execute_here(notebook: NotebookNode, **options: Any) -> None:
    """Execute the cells of a notebook in this process.

    A cell shows what it prints, and then what it calls ``shown``.
    """
    names: dict[str, Any] = {}
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for number, code in enumerate(cells, 1):
        code.execution_count = number
        with redirect_stdout(io.StringIO()) as printed:
            exec(code.source, names)
        if text := printed.getvalue():
            code.outputs.append(
                v4.new_output("stream", name="stdout", text=text)
            )
        if data := names.pop("shown", None):
            code.outputs.append(v4.new_output("display_data", data=data))


def build(folder: Path, pages: dict[str, str]) -> tuple[str, Path]:
    """Build a book of these pages; return the warnings and the output."""
    write_book(folder, pages)
    said = io.StringIO()
    nocolor()
    for builder in ("html", "markdown"):
        with (
            patch_docutils(folder),
            docutils_namespace(),
            warnings.catch_warnings(),
        ):
            # Of other packages.
            for kind in (DeprecationWarning, PendingDeprecationWarning):
                warnings.simplefilter("ignore", kind)
                warnings.filterwarnings(
                    "error", category=kind, module="shardbook_site"
                )
            Sphinx(
                folder / "docs",
                folder,
                folder / "html",
                folder / "doctrees",
                builder,
                confoverrides={"nitpicky": True},
                status=None,
                warning=said,
            ).build()
    return said.getvalue(), folder / "html"
