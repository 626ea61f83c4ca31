"""Offer each page to be taken away: as notebooks, Markdown and files."""

from importlib.metadata import metadata
from pathlib import Path
from typing import Any

import nbformat
from docutils import nodes
from nbformat import v4
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from shardbook.problems import NAMES

# What MyST-NB calls a cell and its output.
LANGUAGES = {"ipython3": "python", "myst-ansi": "text", "ipythontb": "text"}
SOLUTION = """\
:::{{admonition}} Show the solution
:collapsible: closed

```{{literalinclude}} /../src/shardbook/problems/{name}.py
:language: python
```
:::

It is one file that runs alone: \
{{download}}`{name}.py </../src/shardbook/problems/{name}.py>`.
The reference has it as {{func}}`~shardbook.problems.{name}.{name}`.
"""


class Solution(SphinxDirective):
    """The file of a solution, closed until it is opened."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Give what stands under "Solution" on every page."""
        text = SOLUTION.format(name=self.arguments[0])
        return self.parse_text_to_nodes(text)


def fill_menu(
    app: Sphinx,
    pagename: str,
    templatename: str,
    context: dict[str, Any],
    doctree: nodes.document | None,
) -> None:
    """Name in the theme's download menu what there is of this page."""
    if doctree is None:
        return
    (menu,) = (
        group["buttons"]
        for group in context["header_buttons"]
        if group["label"] == "download-buttons"
    )
    sources = context["pathto"]("_sources", 1)
    twin = context["pathto"](f"{pagename}.md", 1)
    offers = [("Markdown, with outputs", twin, "fas fa-file")]
    if context.get("ipynb_source"):
        executed = f"{sources}/{context['ipynb_source']}"
        offers.insert(0, ("Notebook, executed", executed, "fas fa-code"))
    if pagename in {f"problems/{name}" for name in NAMES}:
        starter = f"{sources}/{pagename}-starter.ipynb"
        offers.insert(
            1, ("Notebook, to start from", starter, "fas fa-code")
        )
    # The last is the theme's, to print.
    menu[:-1] = [
        {
            "type": "link",
            "url": url,
            "text": text,
            "icon": icon,
            "tooltip": text,
            "label": "download-button",
        }
        for text, url, icon in offers
    ]
    menu[-1]["text"] = "Print"
    context["metatags"] += (
        f'<link rel="alternate" type="text/markdown" href="{twin}">'
    )


def write_llms(app: Sphinx, exception: Exception | None) -> None:
    """List the Markdown of all pages, for programs that read."""
    if exception or app.builder.format != "html":
        return
    facts = app.env.metadata
    lines = {
        name: f"- [{title.astext()}]({app.config.html_baseurl}{name}.md)"
        for name, title in app.env.titles.items()
    }
    problems = [
        f"{lines.pop(f'problems/{name}')}: "
        f"{facts[f'problems/{name}']['summary']}"
        for name in NAMES
        if f"problems/{name}" in lines
    ]
    about = metadata("shardbook")["Summary"]
    text = "\n".join(
        (
            *(f"# {app.config.project}", "", f"> {about}", ""),
            "Every code cell ran when the site was built; its output is in "
            "the Markdown.",
            *("", "## Problems", "", *problems, "", "## More", ""),
            *(line for _, line in sorted(lines.items())),
            "",
        )
    )
    Path(app.outdir, "llms.txt").write_text(text, "utf-8")


def name_languages(app: Sphinx, tree: nodes.document, name: str) -> None:
    """Call in Markdown each language by the name that all know."""
    if app.builder.format != "markdown":
        return
    for block in tree.findall(nodes.literal_block):
        language = block.get("language", "text")
        block["language"] = LANGUAGES.get(language, language)


def write_notebooks(app: Sphinx, exception: Exception | None) -> None:
    """Say in the executed notebooks what the Markdown says.

    MyST-NB leaves in them what a page is written in; no notebook shows it.
    """
    if exception or app.builder.format != "markdown":
        return
    for twin in Path(app.outdir).rglob("*.md"):
        name = twin.relative_to(app.outdir).with_suffix(".ipynb")
        path = Path(app.outdir, "_sources", name)
        if path.exists():
            notebook = nbformat.read(path, 4)
            rewrite(notebook, twin.read_text("utf-8"))
            nbformat.write(notebook, path)


def rewrite(notebook: nbformat.NotebookNode, twin: str) -> None:
    """Put what is around the cells of a twin around those of a notebook."""
    cells = []
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        text, _, twin = twin.partition(f"```python\n{cell.source}\n```")
        cells += [v4.new_markdown_cell(text.strip()), cell]
        # What it printed is an output here, and no text.
        for output in cell.outputs:
            words = output.get("text") or output.data["text/plain"]
            twin = twin.replace(f"```text\n{words.rstrip()}\n```", "", 1)
    cells.append(v4.new_markdown_cell(twin.strip()))
    for number, cell in enumerate(cells):
        cell.id = f"cell-{number}"
    notebook.cells = cells


def write_fold(writer: Any, node: nodes.admonition) -> None:
    """Write an admonition in Markdown as it is written in the page."""
    title = node.pop(0)
    writer.add(f"**{title.astext()}**", prefix_eol=2, suffix_eol=2)


def setup(app: Sphinx) -> dict[str, bool]:
    app.setup_extension("sphinx_markdown_builder")
    app.add_directive("solution", Solution)
    # After the theme has made its menu.
    app.connect("html-page-context", fill_menu, priority=502)
    app.connect("build-finished", write_llms)
    app.connect("build-finished", write_notebooks)
    app.connect("doctree-resolved", name_languages)
    for node, visit in (
        (nodes.admonition, write_fold),
        (nodes.abbreviation, lambda writer, node: None),
    ):
        done = (visit, lambda writer, node: None)
        app.add_node(node, override=True, markdown=done)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
