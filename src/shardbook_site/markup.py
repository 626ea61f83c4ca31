"""Fill the site's own templates, and write for one builder alone."""

import re
from pathlib import Path
from typing import Any

from docutils import nodes
from jinja2 import StrictUndefined, Template
from sphinx.addnodes import only
from sphinx.environment import BuildEnvironment


def render(env: BuildEnvironment, template: str, **facts: Any) -> str:
    """Fill a template of docs/_templates."""
    path = Path(env.srcdir, "_templates", template)
    text = path.read_text("utf-8")
    filled = Template(text, trim_blocks=True, undefined=StrictUndefined)
    return str(filled.render(facts))


def without_docstrings(code: str) -> str:
    """Return code without its docstrings of more than a line."""
    return re.sub(r'\n +"""[^"\n]+\n.*?"""', "", code, flags=re.DOTALL)


def only_html(text: str) -> only:
    """Return HTML that the Markdown of a page does without."""
    return only("", nodes.raw("", text, format="html"), expr="html")


def only_markdown(*children: nodes.Node) -> only:
    """Wrap what the HTML of a page does without."""
    return only("", *children, expr="markdown")
