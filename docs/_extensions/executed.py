"""Fail the build unless every cell of every page ran, and say what ran."""

import json
import re
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cached_property
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.errors import SphinxError
from sphinx.util import logging

LOGGER = logging.getLogger(__name__)
# What the first cell of a page prints.
STAMP = re.compile(r"^jax (\S+), flax (\S+), (\d+) devices$", re.MULTILINE)


class PagesFailedError(SphinxError):
    """Some page did not run as it must."""

    category = "The book is wrong"


@dataclass(frozen=True)
class Page:
    """A page that has been executed, as MyST-NB left it."""

    source: Path
    executed: Path
    seconds: float
    error: str | None

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
        for number, cell in enumerate(self.cells, 1):
            for output in cell["outputs"]:
                if output["output_type"] == "error":
                    what = f"{output['ename']}: {output['evalue']}"
                    yield self._failure(number, what.strip())
                elif output.get("name") == "stderr":
                    words = _text(output["text"]).strip()
                    yield self._failure(number, f"wrote a warning: {words}")
        ran = [cell["execution_count"] is not None for cell in self.cells]
        if self.error and self.error != "CellExecutionError":
            number = max(ran.count(True), 1)
            what = f"{self.error}: the cell did not come to an end"
            yield self._failure(number, what)
        elif not self.error and not all(ran):
            yield self._failure(ran.index(False) + 1, "was not executed")
        elif not self.error and not self.stamp:
            what = 'must print "jax VERSION, flax VERSION, N devices"'
            yield self._failure(1, what)


def _text(text: str | list[str]) -> str:
    return text if isinstance(text, str) else "".join(text)


def read_pages(app: Sphinx, env: BuildEnvironment) -> dict[str, Page]:
    """Give the executed pages of the site, by name."""
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
                data["error"],
            )
    return pages


def check(app: Sphinx, env: BuildEnvironment) -> None:
    """Stop before a page is written if any of them is not true."""
    pages = read_pages(app, env)
    failures = [
        failure for page in pages.values() for failure in page.failures()
    ]
    for name in sorted(env.found_docs - pages.keys()):
        if not fnmatch(name, app.config.executed_exempt):
            failures.append(
                f"{app.srcdir.name}/{name}.md: no cell was executed, so "
                "nothing shows that it is true. Does its front matter "
                "say 'file_format: mystnb', and has it a code cell?"
            )
    stamps = {page.stamp for page in pages.values()}
    if not failures and len(stamps) > 1:
        failures.append(f"The pages ran on different versions: {stamps}")
    if failures:
        raise PagesFailedError("\n\n".join(failures))


def where(pages: dict[str, Page]) -> str:
    """Say on what the pages ran."""
    jax, flax, devices = next(iter(pages.values())).stamp
    return f"{devices} CPU devices, with jax {jax} and flax {flax}"


def add_to_page(
    app: Sphinx,
    pagename: str,
    templatename: str,
    context: dict[str, Any],
    doctree: Any,
) -> None:
    """Say on each page what it ran on, and offer its notebook."""
    pages = read_pages(app, app.env)
    context["theme_extra_footer"] = f"Every cell ran on {where(pages)}."
    if pagename in pages:
        # The theme's download menu looks for it here, in _sources/.
        context["ipynb_source"] = f"{pagename}.ipynb"


def finish(app: Sphinx, exception: Exception | None) -> None:
    """Put the notebooks beside the sources, and say what was done."""
    if exception or app.builder.format != "html":
        return
    pages = read_pages(app, app.env)
    for name, page in pages.items():
        target = Path(app.outdir, "_sources", f"{name}.ipynb")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(page.executed, target)
    cells = sum(len(page.cells) for page in pages.values())
    seconds = time.monotonic() - app.started
    LOGGER.info(
        f"\n{len(pages)} pages and {cells} cells ran on {where(pages)}, "
        f"in {seconds:.0f} s.\nOpen {Path(app.outdir, 'index.html')}"
    )


def setup(app: Sphinx) -> dict[str, bool]:
    app.started = time.monotonic()
    app.add_config_value("executed_exempt", "", "env", str)
    app.connect("env-check-consistency", check)
    # Before the theme makes the download menu.
    app.connect("html-page-context", add_to_page, priority=400)
    app.connect("build-finished", finish)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
