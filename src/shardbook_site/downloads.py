"""Offer each page to be taken away: as Markdown and as notebooks.

The Markdown builder writes a twin of each page, from what was read for the
HTML; the notebooks are made of the twins, so that no cell runs again.
"""

import re
from importlib.metadata import metadata
from pathlib import Path
from typing import Any

import nbformat
from docutils import nodes
from nbformat import NotebookNode, v4
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

from shardbook.grading import attempt_files
from shardbook.problems import NAMES
from shardbook_site.execution import notebook_of
from shardbook_site.markup import render
from shardbook_site.problems import install_command

# What MyST-NB calls a cell and its output.
LANGUAGES = {"ipython3": "python", "myst-ansi": "text", "ipythontb": "text"}
PROBLEMS = {f"problems/{name}": name for name in NAMES}


def name_languages(app: Sphinx, tree: nodes.document, name: str) -> None:
    """Call each language in the Markdown by the name that all know."""
    if app.builder.format != "markdown":
        return
    for block in tree.findall(nodes.literal_block):
        language = block.get("language", "text")
        block["language"] = LANGUAGES.get(language, language)


def write_notebooks(app: Sphinx, exception: Exception | None) -> None:
    """Write the notebooks of pages and problems, beside the sources."""
    if exception or app.builder.format != "markdown":
        return
    for name in sorted(app.env.found_docs):
        text = Path(app.outdir, f"{name}.md").read_text("utf-8")
        executed = notebook_of(app, name)
        target = Path(app.outdir, "_sources", f"{name}.ipynb")
        target.parent.mkdir(parents=True, exist_ok=True)
        if executed.exists():
            notebook = nbformat.read(executed, 4)
            notebook.cells = rewritten(notebook.cells, text, name)
            nbformat.write(notebook, target)
        if name in PROBLEMS:
            install = install_command(app.env).replace(
                "python3 -m pip", "%pip"
            )
            starter = starter_notebook(text, PROBLEMS[name], install)
            nbformat.write(
                starter, target.with_stem(f"{target.stem}-starter")
            )


def numbered(cells: list[NotebookNode]) -> list[NotebookNode]:
    """Give the cells ids that are the same in each build."""
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    return cells


def rewritten(
    cells: list[NotebookNode], twin: str, name: str
) -> list[NotebookNode]:
    """Put the text of a twin around the code cells of a notebook.

    MyST-NB leaves in them what a page is written in; no notebook shows it.
    """
    new = []
    for cell in cells:
        if cell.cell_type != "code":
            continue
        fence = f"```python\n{cell.source}\n```"
        text, found, twin = twin.partition(fence)
        if not found:
            raise ExtensionError(
                f"{name}: its Markdown lacks a cell of its notebook, as\n"
                f"{fence}"
            )
        new += [v4.new_markdown_cell(text.strip()), cell]
        # What it printed is an output here, and no text.
        for output in cell.outputs:
            words = output.get("text") or output.data["text/plain"]
            twin = twin.replace(f"```text\n{words.rstrip()}\n```", "", 1)
    new.append(v4.new_markdown_cell(twin.strip()))
    return numbered(new)


def starter_notebook(twin: str, name: str, install: str) -> NotebookNode:
    """Make a notebook of the problem, the starter and the check."""
    title = re.search(r"^# .*$", twin, re.M)
    task = re.search(r"^## Problem\n(.*?)^## ", twin, re.M | re.S)
    if not title or not task:
        raise ExtensionError(
            f"problems/{name}: the Markdown of the page needs a title and "
            'a section "Problem" with another section after it'
        )
    cells = [
        v4.new_markdown_cell(f"{title[0]}\n{task[1]}".strip()),
        v4.new_code_cell(install),
        v4.new_code_cell(attempt_files.starter(name).strip()),
        v4.new_code_cell(f"import shardbook\n\nshardbook.check({name})"),
    ]
    kernel = {"name": "python3", "display_name": "Python 3"}
    notebook: NotebookNode = v4.new_notebook(
        cells=numbered(cells), metadata={"kernelspec": kernel}
    )
    return notebook


def write_lists(app: Sphinx, exception: Exception | None) -> None:
    """List the pages: their Markdown for programs, all for searches."""
    if exception or app.builder.format != "html":
        return
    found = app.env.found_docs
    facts = {
        "project": app.config.project,
        "about": metadata("shardbook")["Summary"],
        "baseurl": app.config.html_baseurl,
        "names": [
            *(name for name in PROBLEMS if name in found),
            *sorted(found - PROBLEMS.keys()),
        ],
        "titles": app.env.titles,
        "metadata": app.env.metadata,
    }
    for name in ("llms.txt", "sitemap.xml"):
        text = render(app.env, name, **facts)
        Path(app.outdir, name).write_text(text, "utf-8")


def write_fold(writer: Any, node: nodes.admonition) -> None:
    """Write an admonition in Markdown as it is written in the page."""
    title = node.pop(0)
    writer.add(f"**{title.astext()}**", prefix_eol=2, suffix_eol=2)


def write_nothing(writer: Any, node: nodes.Element) -> None:
    """Write what a node holds, and nothing around it."""


def setup(app: Sphinx) -> None:
    """Set up the Markdown builder, and what is made of its pages."""
    app.setup_extension("sphinx_markdown_builder")
    app.add_node(
        nodes.admonition,
        override=True,
        markdown=(write_fold, write_nothing),
    )
    app.add_node(
        nodes.abbreviation,
        override=True,
        markdown=(write_nothing, write_nothing),
    )
    app.connect("doctree-resolved", name_languages)
    app.connect("build-finished", write_notebooks)
    app.connect("build-finished", write_lists)
