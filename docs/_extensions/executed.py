"""Fail the build unless every cell of every page ran, and say what ran."""

import json
import os
import re
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache, cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from jupyter_cache.executors import utils as executors
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from sphinx.application import Sphinx
from sphinx.util import logging
from traitlets.config import Config

LOGGER = logging.getLogger(__name__)
# What the first cell of a page prints.
STAMP = re.compile(r"^jax (\S+), flax (\S+), (\d+) devices$", re.MULTILINE)


class KernelDiedError(CellTimeoutError):
    """A cell ended its kernel; handled as a cell that hangs is."""


def execute(*args: Any, **kwargs: Any) -> Any:
    """Execute a notebook as before, with three changes.

    A kernel that dies no longer ends the build without a word about the
    page. Kernels listen on sockets in a folder of their own: those that
    start at the same time now and then chose the same network port. And
    what a cell prints is one output, in however many parts it came.
    """
    started = []

    def note(cell: Any, cell_index: int) -> None:
        if cell.cell_type == "code":
            started.append(cell_index)

    with TemporaryDirectory(prefix="shardbook-") as folder:
        manager = {"connection_file": str(Path(folder, "kernel.json"))}
        if os.name == "posix":
            manager["transport"] = "ipc"
        kwargs["config"] = Config(KernelManager=manager)
        try:
            return _execute(
                *args, on_cell_start=note, coalesce_streams=True, **kwargs
            )
        except DeadKernelError as error:
            place = f"in code cell {len(started)}"
            raise KernelDiedError(place) from error


_execute, executors.executenb = executors.executenb, execute


@dataclass(frozen=True)
class Page:
    """A page that has been executed, as MyST-NB left it."""

    source: Path
    executed: Path
    seconds: float
    traceback: str | None

    @cached_property
    def cells(self) -> list[dict[str, Any]]:
        """The code cells, with their outputs."""
        notebook = json.loads(self.executed.read_text("utf-8"))
        return [
            cell
            for cell in notebook["cells"]
            if cell["cell_type"] == "code"
        ]

    @cached_property
    def stamp(self) -> tuple[str, ...] | None:
        """The versions of jax and flax and the number of devices."""
        for cell in self.cells[:1]:
            for output in cell["outputs"]:
                if found := STAMP.search(_text(output.get("text", ""))):
                    return found.groups()
        return None

    def _failure(self, number: int, what: str) -> str:
        code = _text(self.cells[number - 1]["source"])
        lines = code.splitlines()
        if len(lines) > 12:
            lines = [*lines[:6], "...", *lines[-6:]]
        quoted = "\n".join(f"    | {line}" for line in lines)
        return f"{self.source}, code cell {number}: {what}\n{quoted}"

    def failures(self) -> Iterator[str]:
        """Say what is wrong with the page, cell by cell."""
        if not self.cells:
            yield f"{self.source}: has no code cell to show it is true"
            return
        trouble = self.traceback or ""
        limit = re.search(r"timed out .*?, after (\d+) s", trouble)
        for number, cell in enumerate(self.cells, 1):
            for output in cell["outputs"]:
                if output["output_type"] == "error" and not limit:
                    what = f"{output['ename']}: {output['evalue']}"
                    yield self._failure(number, what.strip())
                elif output.get("name") == "stderr":
                    words = _text(output["text"]).strip()
                    yield self._failure(number, f"wrote a warning: {words}")
        ran = [cell["execution_count"] is not None for cell in self.cells]
        if limit:
            what = f"ran past the limit of {limit[1]} s"
            yield self._failure(max(ran.count(True), 1), what)
        elif died := re.search(
            r"KernelDiedError: in code cell (\d+)", trouble
        ):
            yield self._failure(int(died[1]), "ended its kernel")
        elif not trouble and not all(ran):
            yield self._failure(ran.index(False) + 1, "was not executed")
        elif not trouble and not self.stamp:
            what = 'must print "jax VERSION, flax VERSION, N devices"'
            yield self._failure(1, what)


def _text(text: str | list[str]) -> str:
    return text if isinstance(text, str) else "".join(text)


@cache
def read_pages(app: Sphinx) -> dict[str, Page]:
    """Give the executed pages of the site, by name, read once a build."""
    env = app.env
    folder = Path(env.mystnb_config.output_folder)
    pages = {}
    for name in sorted(env.found_docs):
        path = Path(env.doc2path(name, base=False))
        data = env.nb_metadata.get(name, {}).get("exec_data")
        if data:
            pages[name] = Page(
                Path(app.srcdir.name, path),
                folder / path.with_suffix(".ipynb"),
                data["runtime"] or 0.0,
                data["traceback"],
            )
    return pages


def failures(app: Sphinx, pages: dict[str, Page]) -> Iterator[str]:
    """Say what is wrong with the book, page by page."""
    for page in pages.values():
        yield from page.failures()
    for name in sorted(app.env.found_docs - pages.keys()):
        if not fnmatch(name, app.config.executed_exempt):
            yield (
                f"{app.srcdir.name}/{name}.md: no cell was executed, so "
                "nothing shows that it is true. Does its front matter say "
                "'file_format: mystnb', and has it a code cell?"
            )
    stamps = {page.stamp for page in pages.values() if page.stamp}
    if len(stamps) > 1:
        yield f"The pages ran on different versions: {sorted(stamps)}"


def where(app: Sphinx, pages: dict[str, Page]) -> str:
    """Say on what the pages ran."""
    if any(failures(app, pages)):
        return "This build failed: do not trust this page."
    jax, flax, devices = next(iter(pages.values())).stamp
    count = sum(len(page.cells) for page in pages.values())
    return (
        f"The book's {count} cells ran on {devices} CPU devices, "
        f"with jax {jax} and flax {flax}."
    )


def add_to_page(
    app: Sphinx,
    pagename: str,
    templatename: str,
    context: dict[str, Any],
    doctree: Any,
) -> None:
    """Say on each page what it ran on, and offer its notebook."""
    pages = read_pages(app)
    context["theme_extra_footer"] = where(app, pages)
    if pagename in pages:
        # The theme's download menu looks for it here, in _sources/.
        context["ipynb_source"] = f"{pagename}.ipynb"


def finish(app: Sphinx, exception: Exception | None) -> None:
    """Put the notebooks beside the sources, and say what was done."""
    if exception or app.builder.format != "html":
        return
    pages = read_pages(app)
    for name, page in pages.items():
        target = Path(app.outdir, "_sources", f"{name}.ipynb")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(page.executed, target)
    for failure in failures(app, pages):
        app.statuscode = 1
        LOGGER.error("%s\n", failure)
    seconds = time.monotonic() - app.started
    LOGGER.info(f"\n{len(pages)} pages, built in {seconds:.0f} s.")
    LOGGER.info(where(app, pages))


def setup(app: Sphinx) -> dict[str, bool]:
    app.started = time.monotonic()
    app.add_config_value("executed_exempt", "", "env", str)
    # Before the theme makes the download menu.
    app.connect("html-page-context", add_to_page, priority=400)
    app.connect("build-finished", finish)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
