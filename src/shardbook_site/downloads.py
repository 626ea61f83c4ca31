"""Offer each page to be taken away: as Markdown and as notebooks.

The Markdown builder writes a twin of each page, from what was read for the
HTML; the notebooks are made of the twins, so that no cell runs again.
"""

import re
from base64 import b64encode
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import nbformat
from docutils import nodes
from nbformat import NotebookNode, v4
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

from shardbook_site.execution import notebook_of
from shardbook_site.markup import render
from shardbook_site.problems import PAGES, install_command
from shardgrade.reader import attempt_files

# What MyST-NB calls a cell and its output.
LANGUAGES = {"ipython3": "python", "myst-ansi": "text", "ipythontb": "text"}
# A link within the site or a picture, as the Markdown builder writes it.
LINK = re.compile(
    r"(!?)\[([^][]+)\]"
    r"\(([\w./-]+\.(?:md|py|ipynb|svg)(?:#[\w.-]+)?|#[\w.-]+)\)"
)
SVG = re.compile("<svg.*?</svg>", re.DOTALL)
KERNEL = {"name": "python3", "display_name": "Python 3"}
# The way back from an executed notebook.
ORIGIN = 'This notebook is the page ["{}"]({}.md) of the book Shardbook.'
# The first cells of a starter: the way back, and devices to try things on.
PAGE = """\
[The page of this problem]({0}.md) has the solution and what to read: \
`shardbook open {0}`."""
DEVICES = """\
import jax

# Eight CPU devices to experiment on; before JAX is used for the first time.
jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)"""
INSTALL = """\
try:
    import shardbook
except ModuleNotFoundError:
    {}"""


def prepare(app: Sphinx, tree: nodes.document, name: str) -> None:
    """Give the Markdown builder languages and links that it can write."""
    if app.builder.format != "markdown":
        return
    # It takes what MyST leaves of a link within the page for a link to
    # another site, and would write no address.
    for reference in tree.findall(nodes.reference):
        if "refid" in reference:
            reference["internal"] = True
    for block in tree.findall(nodes.literal_block):
        language = block.get("language", "text")
        block["language"] = LANGUAGES.get(language, language)


def write_notebooks(app: Sphinx, exception: Exception | None) -> None:
    """Write the notebooks of pages and problems, beside the sources."""
    if exception or app.builder.format != "markdown":
        return
    address = app.config.html_theme_options.get("repository_url")
    missing = f"shardbook is missing: {install_command(app.env)}"
    install = INSTALL.format(
        f"%pip install git+{address}"
        if address
        else f'raise ImportError("{missing}") from None'
    )
    without = app.config.html_context["without_notebook"]
    for name in sorted(app.env.found_docs):
        text = Path(app.outdir, f"{name}.md").read_text("utf-8")
        executed = notebook_of(app, name)
        target = Path(app.outdir, "_sources", f"{name}.ipynb")
        title, _, text = text.lstrip().partition("\n")
        page = ORIGIN.format(title.removeprefix("# "), target.stem)
        text = linked(
            f"{title}\n\n{page}\n{text}", app.config.html_baseurl, name
        )
        target.parent.mkdir(parents=True, exist_ok=True)
        if executed.exists() and name not in without:
            cells = nbformat.read(executed, 4).cells
            write(target, rewritten(cells, text, name), install)
        if name in PAGES:
            starter = target.with_stem(f"{target.stem}-starter")
            page = linked(
                PAGE.format(PAGES[name]), app.config.html_baseurl, name
            )
            write(starter, starter_cells(text, PAGES[name], page), install)


def linked(text: str, base: str, name: str) -> str:
    """Let links and pictures lead to the site, or keep their words alone.

    A notebook may be read anywhere.
    """

    def link(found: re.Match[str]) -> str:
        mark, words, address = found.groups()
        if not base:
            return words
        address = re.sub(r"\.md(?=#|$)", ".html", address)
        return f"{mark}[{words}]({urljoin(f'{base}{name}.html', address)})"

    return LINK.sub(link, text)


def write(path: Path, cells: list[NotebookNode], install: str) -> None:
    """Write a notebook that installs the package where it is missing."""
    cells.insert(1, v4.new_code_cell(install))
    for number, cell in enumerate(cells):
        # The same in each build.
        cell["id"] = f"cell-{number}"
    notebook = v4.new_notebook(cells=cells)
    notebook.metadata.kernelspec = KERNEL
    nbformat.write(notebook, path)


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
        for output in cell.outputs:
            if "text/html" in output.get("data", {}):
                pictured = SVG.sub(as_image, output.data["text/html"])
                output.data["text/html"] = pictured
            # What it printed is an output here, and no text.
            words = output.get("text") or output.data["text/plain"]
            twin = twin.replace(f"```text\n{words.rstrip()}\n```", "", 1)
    return [*new, v4.new_markdown_cell(twin.strip())]


def as_image(svg: re.Match[str]) -> str:
    """Write a picture as JupyterLab shows it before its cell has run.

    From a notebook of others, it takes tags of SVG away, and leaves the
    text in them. An image doesn't follow the page, so its ground is white.
    """
    picture = svg[0].replace("<svg ", '<svg style="background: #fff" ', 1)
    data = b64encode(picture.encode()).decode()
    return f'<img alt="" src="data:image/svg+xml;base64,{data}">'


def starter_cells(twin: str, name: str, page: str) -> list[NotebookNode]:
    """Make the cells of the problem, its hints, starter and check."""
    title, *_ = twin.lstrip().partition("\n")
    _, _, rest = twin.partition("\n## Problem\n")
    task, _, rest = rest.partition("\n## Hints\n")
    hints, *_ = rest.partition("\n## ")
    return [
        v4.new_markdown_cell(f"{title}\n\n{page}\n\n{task.strip()}"),
        v4.new_markdown_cell(f"## Hints\n\n{hints.strip()}"),
        v4.new_code_cell(DEVICES),
        v4.new_code_cell(attempt_files.starter(name).strip()),
        v4.new_code_cell(f"import shardgrade\n\nshardgrade.check({name})"),
    ]


def write_lists(app: Sphinx, exception: Exception | None) -> None:
    """List the pages: their Markdown for programs, all for searches."""
    if exception or app.builder.format != "html":
        return
    found = app.env.found_docs
    names = [
        *(name for name in PAGES if name in found),
        *sorted(found - PAGES.keys()),
    ]
    for name in ("llms.txt", "sitemap.xml"):
        text = render(app.env, name, app=app, names=names)
        Path(app.outdir, name).write_text(text, "utf-8")


def write_fold(writer: Any, node: nodes.admonition) -> None:
    """Write an admonition in Markdown; a notebook can fold it too."""
    title = node.pop(0).astext()
    fold = f"<details>\n<summary>{title}</summary>"
    words = fold if node.get("collapsible") else f"**{title}**"
    writer.add(words, prefix_eol=2, suffix_eol=2)


def end_fold(writer: Any, node: nodes.admonition) -> None:
    """End what write_fold began."""
    if node.get("collapsible"):
        writer.add("</details>", prefix_eol=2, suffix_eol=2)


def write_nothing(writer: Any, node: nodes.Element) -> None:
    """Write what a node holds, and nothing around it."""


def setup(app: Sphinx) -> None:
    """Set up the Markdown builder, and what is made of its pages."""
    app.setup_extension("sphinx_markdown_builder")
    app.add_node(
        nodes.admonition,
        override=True,
        markdown=(write_fold, end_fold),
    )
    for node in (nodes.abbreviation, nodes.meta):
        nothing = (write_nothing, write_nothing)
        app.add_node(node, override=True, markdown=nothing)
    app.connect("doctree-resolved", prepare)
    app.connect("build-finished", write_notebooks)
    app.connect("build-finished", write_lists)
