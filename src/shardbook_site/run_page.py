"""Run the cells of one page in seconds, without building the site.

"nox -s page -- NAME" runs this. It goes on after a cell that fails, names
the line of the page, and shows both sides of a comparison that does not
hold. What only the site can check (links, predictions, outputs) it leaves
to "nox -s docs".
"""

import ast
import contextlib
import io
import os
import sys
import time
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from shardbook_site.cells import CELL
from shardbook_site.execution import XLA_FLAGS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def page_of(name: str) -> Path:
    """Find a page by its name, or by its path in docs."""
    for folder in ("problems", ".", "guides"):
        path = DOCS / folder / f"{name.removesuffix('.md')}.md"
        if path.is_file():
            return path
    sys.exit(
        f"There is no page {name!r}. Give its name, such as first_look, "
        "or its path in docs, such as guides/errors/jit"
    )


def set_flags(page: Path) -> None:
    """Set what the build gives to XLA, before jax starts its devices."""
    before, *found = page.read_text("utf-8").split("---\n", 2)
    if before or len(found) < 2:
        sys.exit(
            f"{page.name} has no front matter: begin the page "
            "with that of docs/guides/train.md"
        )
    front = yaml.safe_load(found[0])
    given = os.environ.get("XLA_FLAGS", "")
    flags = front.get("xla_flags", XLA_FLAGS)
    os.environ["XLA_FLAGS"] = f"{given} {flags}".strip()


def cells(page: Path) -> Iterator[tuple[int, str]]:
    """Give each cell with the number of the line before it."""
    text = page.read_text("utf-8")
    for found in CELL.finditer(text):
        yield text[: found.start("code")].count("\n"), found["code"]


def explain(error: BaseException, page: Path, cell: ast.Module) -> str:
    """Name the line of the page, and both sides of a failed comparison."""
    # The last step of the error that is code of the page.
    step = error.__traceback__
    frame, line = None, getattr(error, "lineno", 0)
    while step:
        if step.tb_frame.f_code.co_filename == str(page):
            frame, line = step.tb_frame, step.tb_lineno
        step = step.tb_next
    lines = traceback.format_exception_only(error)
    words = f"{page.relative_to(ROOT)}:{line}: {lines[-1].strip()}"
    for node in ast.walk(cell):
        if (
            frame
            and isinstance(node, ast.Assert)
            and isinstance(error, AssertionError)
            and node.lineno <= line <= (node.end_lineno or line)
        ):
            words += f"\n    {ast.unparse(node)}"
            for side in compared(node):
                code = compile(ast.Expression(side), "a side", "eval")
                value = eval(code, {**frame.f_globals, **frame.f_locals})
                words += f"\n    {ast.unparse(side)} is {value!r}"
    return words


def compared(node: ast.Assert) -> Iterator[ast.expr]:
    """Give what an assertion compares, without what it spells out."""
    for part in ast.walk(node.test):
        if isinstance(part, ast.Compare):
            for side in (part.left, *part.comparators):
                if any(isinstance(n, ast.Name) for n in ast.walk(side)):
                    yield side


def run(page: Path, line: int, code: str, names: dict[str, Any]) -> str:
    """Run a cell; return what is wrong with it, or nothing."""
    cell = ast.Module([], [])
    printed = io.StringIO()
    try:
        # With the lines of the page.
        cell = ast.parse("\n" * line + code, str(page))
        with contextlib.redirect_stdout(printed):
            exec(compile(cell, str(page), "exec"), names)
    # A cell may also call sys.exit.
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return printed.getvalue() + explain(error, page, cell)
    return ""


def main(name: str) -> int:
    """Run the cells of a page; return the exit status."""
    page = page_of(name).resolve()
    # What the build fails on, too.
    warnings.simplefilter("error", DeprecationWarning)
    set_flags(page)
    names: dict[str, Any] = {"__name__": "__main__"}
    count = failed = 0
    started = time.monotonic()
    with TemporaryDirectory() as folder:
        # A page may write files.
        os.chdir(folder)
        for line, code in cells(page):
            count += 1
            if wrong := run(page, line, code, names):
                failed += 1
                print(wrong)
    print(
        f"{count} cells of {page.relative_to(DOCS)} in "
        f"{time.monotonic() - started:.0f} s: "
        + (f"{failed} failed" if failed else "all hold")
    )
    return bool(failed or not count)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
