"""Show how to attempt a problem, and make its notebook."""

import os
import re
from pathlib import Path

import nbformat
from docutils import nodes
from nbformat import v4 as notebook
from repository import repository_options
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from shardbook import attempts
from shardbook.problems import NAMES

TEXT = """\
Write the function in a file, and see what is right, what is wrong and why:

```sh
{install}
shardbook start {name}
shardbook check {name}
```

`start` writes the text below to `attempts/{name}.py`; your code goes in the
place of its last line.
`shardbook watch {name}` grades it each time you save.

```{{literalinclude}} /../src/shardbook/problems/{name}.py
:language: python
:end-before: "# --- solution ---"
:append: "    raise NotImplementedError"
```

In a notebook, `shardbook.check({name})` shows the same verdict.
"""


def install() -> str:
    """Give the line that installs the package."""
    address = repository_options(os.environ).get("repository_url")
    if address:
        return f"python3 -m pip install git+{address}"
    return "python3 -m pip install .  # in a clone of the repository"


class Attempt(SphinxDirective):
    """The commands, the starter and the notebook of a problem."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Give what stands under "Your attempt" on every page."""
        name = self.arguments[0]
        text = TEXT.format(name=name, install=install())
        path = f"../_sources/problems/{name}-starter.ipynb"
        link = nodes.reference(
            "", "Download one with the starter in it", refuri=path
        )
        last = nodes.paragraph("", "", link, nodes.Text("."))
        return [*self.parse_text_to_nodes(text), last]


def starter_notebook(page: str, name: str) -> nbformat.NotebookNode:
    """Make a notebook of the problem, the starter and the check."""
    title = re.search(r"^# .*$", page, re.M)[0]
    task = re.search(r"^## Problem\n(.*?)^## ", page, re.M | re.S)[1]
    task = re.sub(r"^```\{.*?^```\n", "", task, flags=re.M | re.S)
    install_cell = install().replace("python3 -m pip", "%pip")
    cells = [
        notebook.new_markdown_cell(f"{title}\n{task}".strip()),
        notebook.new_code_cell(install_cell),
        notebook.new_code_cell(attempts.starter(name).strip()),
        notebook.new_code_cell(
            f"import shardbook\n\nshardbook.check({name})"
        ),
    ]
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    kernel = {"name": "python3", "display_name": "Python 3"}
    return notebook.new_notebook(
        cells=cells,
        metadata={"kernelspec": {**kernel, "language": "python"}},
    )


def write_notebooks(app: Sphinx, exception: Exception | None) -> None:
    """Put the starter notebooks beside the sources."""
    if exception or app.builder.format != "html":
        return
    for name in NAMES:
        docname = f"problems/{name}"
        if docname in app.env.found_docs:
            page = Path(app.env.doc2path(docname)).read_text("utf-8")
            target = Path(
                app.outdir, "_sources", f"{docname}-starter.ipynb"
            )
            target.parent.mkdir(parents=True, exist_ok=True)
            nbformat.write(starter_notebook(page, name), target)


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("attempt", Attempt)
    app.connect("build-finished", write_notebooks)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
