"""Fail the build unless every page ran, and say on each what it ran on.

MyST-NB warns of a cell that raises or hangs, with its traceback.
"""

import ast
import asyncio
import os
import re
import signal
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import nbformat
from jupyter_cache.executors import utils as executors
from myst_nb.sphinx_ import NbMetadataCollector
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from nbformat import NotebookNode, v4
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging
from traitlets.config import Config

from shardbook_site import kept, kernels, noted

LOGGER = logging.getLogger(__name__)
# Of a busy machine: nbclient would give up on a kernel that takes a minute
# to start, and would drop an output, without a word, that comes 4 s late.
PATIENCE = {
    "startup_timeout": 600,
    "iopub_timeout": 60,
    "raise_on_iopub_timeout": True,
}
IMPORTS_JAX = re.compile(r"^(?:import|from) .*\bjax\b", re.MULTILINE)
# What the cell that sets up the devices prints.
STAMP = re.compile(r"^jax (\S+), flax (\S+), (\d+) devices$", re.MULTILINE)


# LLVM's passes are half of the time that compiling takes. Without them, the
# HLO, its memory and its collectives are the same.
XLA_FLAGS = "--xla_backend_optimization_level=0"


class KernelDiedError(CellTimeoutError):
    """A cell ended its kernel: reported as a cell that hangs is."""


def allow_interrupt(cell: Any, cell_index: int) -> None:
    """Let Ctrl-C and Sphinx end the process, before a cell runs.

    nbclient would take it for a kernel that died, and Sphinx's reader would
    wait forever to send the page to a process that has ended.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().remove_signal_handler(number)


# What the kernels of this build are forked from: MyST-NB has nothing that
# reaches "execute" from where it is started.
_server: kernels.Server | None = None
# What pages have put out before, unless all are to run.
_kept: kept.Kept | None = None


def start_server(
    app: Sphinx, env: BuildEnvironment, docnames: list[str]
) -> None:
    """Start it before Sphinx forks the processes that read pages."""
    global _server, _kept
    flags = app.config.execution_xla_flags
    if docnames and hasattr(os, "fork"):
        _server = kernels.Server(flags)
    if docnames and (folder := app.config.execution_kept):
        root = Path(app.confdir)
        _kept = kept.Kept(root / folder, root, flags)


def end_server(app: Sphinx, error: Exception | None) -> None:
    """End it with the build."""
    global _server, _kept
    if _server:
        _server.close()
    if _kept and not error:
        _kept.remove_old()
    _server = _kept = None


def is_prepared(notebook: NotebookNode) -> bool:
    """Tell whether a page can have a kernel that has imported jax.

    A page must not set a variable that jax reads as it is imported, and
    must not need compilers that jax finds then.
    """
    code = "\n".join(cell.source for cell in noted.code_cells(notebook))
    before = IMPORTS_JAX.split(code)[0]
    return "environ" not in before and "runs_with" not in notebook.metadata


def execute(notebook: NotebookNode, cwd: str, **kwargs: Any) -> Any:
    """Execute a notebook as nbclient does, with some changes.

    Where a page can't run, it shows what was noted, and where nothing has
    changed since an earlier build, what was kept. Its kernel has imported
    jax already, if it can. A kernel that dies no longer ends the build
    without naming the page. Kernels listen on sockets in a folder of their
    own: those that start at the same time now and then chose the same
    network port. And what a cell prints is one output, in however many
    parts it came (nb_merge_streams would end each part with a new line).
    """
    if noted.is_noted(notebook):
        noted.show(notebook, cwd)
        return notebook
    file = _kept.file_of(notebook, cwd) if _kept else None
    if _kept and file and _kept.restore(file, notebook):
        LOGGER.info("kept: %s", kept.title_of(notebook))
        return notebook
    with TemporaryDirectory(prefix="shardbook-") as folder:
        manager = {"connection_file": str(Path(folder, "kernel.json"))}
        if os.name == "posix":
            manager["transport"] = "ipc"
            kwargs["on_cell_start"] = allow_interrupt
        kwargs["config"] = Config(KernelManager=manager)
        trace = Path(folder, "opened")
        if _server and is_prepared(notebook):
            kwargs["kernel_manager_class"] = kernels.manager_of(
                _server,
                notebook.metadata.get("xla_flags", _server.flags),
                trace,
            )
        try:
            _execute(
                notebook,
                cwd=cwd,
                coalesce_streams=True,
                **PATIENCE,
                **kwargs,
            )
        except DeadKernelError as error:
            raise KernelDiedError(f"a cell ended it: {error}") from error
        if _kept and file and not [*complaints(noted.code_cells(notebook))]:
            _kept.keep(file, notebook, trace)
    noted.write(notebook, cwd)
    return notebook


# MyST-NB picks its client by the mode alone, and each client calls this
# function without options: nothing can be registered, nor be passed.
_execute, executors.executenb = executors.executenb, execute


def notebook_of(app: Sphinx, name: str) -> Path:
    """Return the file to which MyST-NB writes an executed page."""
    return Path(app.outdir).parent / "jupyter_execute" / f"{name}.ipynb"


def executed(app: Sphinx, name: str) -> NotebookNode:
    """Read a page with the outputs of its cells."""
    notebook: NotebookNode = nbformat.read(notebook_of(app, name), 4)
    return notebook


def stamp_of(cells: list[NotebookNode]) -> tuple[str, ...] | None:
    """Return the versions of jax and flax and the number of devices."""
    for cell in cells:
        for output in cell["outputs"]:
            if found := STAMP.search(output.get("text", "")):
                return found.groups()
    return None


def count_assertions(body: list[ast.stmt]) -> int:
    """Count the assertions that code can't pass without them holding.

    Those within functions, loops and branches may not be reached, and do
    not count. An error that shardbook.raises requires counts as one.
    """
    count = 0
    for node in body:
        if isinstance(node, ast.Assert):
            count += 1
        elif isinstance(node, ast.With):
            count += (
                1
                if "raises(" in ast.unparse(node.items[0])
                else count_assertions(node.body)
            )
    return count


def complaints(cells: list[NotebookNode]) -> Iterator[str]:
    """Say what is wrong with the cells of a page and their outputs."""
    for number, cell in enumerate(cells, 1):
        for output in cell["outputs"]:
            if output["output_type"] == "error":
                yield (
                    f"code cell {number} raised {output['ename']}, and its "
                    "tags allow that: use shardbook.raises, which fails "
                    "if there is no error"
                )
            elif output.get("name") == "stderr":
                yield f"code cell {number} wrote: {output.text}"
    if not cells:
        yield (
            "no cell was executed, so nothing shows that the page is true. "
            "Does its front matter say 'file_format: mystnb', and has it a "
            "code cell?"
        )
    elif not stamp_of(cells):
        yield (
            'a code cell must print "jax VERSION, flax VERSION, N devices"'
        )


def check(app: Sphinx, env: BuildEnvironment) -> list[str]:
    """Warn of each page that is not true, and make the footer.

    Returns:
        All pages: each shows what all of them ran on, so all are written
        again when one has changed.
    """
    pages = sorted(env.found_docs)
    footer = "Not every cell ran well: do not trust this page."
    count = assertions = elsewhere = 0
    stamps: set[tuple[str, ...]] = set()
    well = app.config.nb_execution_mode != "off"
    for name in pages if well else ():
        run = NbMetadataCollector.get_exec_data(env, name)
        page = executed(app, name) if run else v4.new_notebook()
        cells = noted.code_cells(page)
        exempt = app.config.execution_exempt
        if not cells and any(fnmatch(name, each) for each in exempt):
            continue
        wrong = list(complaints(cells))
        # MyST-NB has warned of an error.
        failed = run and run["error"]
        if noted.is_noted(page) and not failed:
            elsewhere += 1
            continue
        if wrong and not failed:
            LOGGER.warning("%s", "\n".join(wrong), location=name)
        if stamp := stamp_of(cells):
            stamps.add(stamp)
        well = well and not wrong and not failed
        count += len(cells)
        assertions += sum(
            count_assertions(ast.parse(c.source).body) for c in cells
        )
    if len(stamps) > 1:
        LOGGER.warning("pages ran on different versions: %s", stamps)
    elif well and stamps:
        ((jax, flax, devices),) = stamps
        footer = (
            f"The book's {count} cells ran, and {assertions} assertions "
            f"in them held, on {devices} CPU devices with jax {jax} and "
            f"flax {flax}."
        )
        if elsewhere:
            footer += " Where a page shows what was noted, it says so."
    app.config.html_theme_options["extra_footer"] = footer
    return pages


def setup(app: Sphinx) -> None:
    """Fork kernels while pages are read, and check when all were."""
    app.add_config_value("execution_exempt", [], "env", frozenset({list}))
    app.add_config_value(
        "execution_xla_flags", XLA_FLAGS, "env", frozenset({str})
    )
    app.add_config_value("execution_kept", "", "", frozenset({str}))
    app.connect("env-before-read-docs", start_server)
    app.connect("build-finished", end_server)
    app.connect("env-updated", check)
