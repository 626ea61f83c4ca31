"""Let readers try a shape, a mesh and a spec: the layout explorer.

What was drawn once is kept with what Sphinx has read: a writer who saves a
page should not have to wait until jax is imported.
"""

import ast
import html
from dataclasses import dataclass
from typing import Any

import ml_dtypes  # noqa: F401  NumPy knows bfloat16 by it
import numpy as np
from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.docutils import SphinxDirective

import shardbook

PAGE = "explorer"
DTYPES = (
    *("float32", "bfloat16", "float16", "float8_e4m3fn", "float64"),
    *("int8", "int32", "int64", "bool", "complex64"),
)
WITHOUT_SCRIPT = """\
With JavaScript, you choose a shape, a mesh and a spec here.
The page then shows which device holds which slice, in words, as a picture
and as code, and what moves to another spec.
Without it, this is one choice.
"""
FORM = """\
<form autocomplete="off">
<div class="explorer-fields">
{shape}{mesh}
<label>dtype <select name="dtype">{dtypes}</select></label>
</div>
<div class="explorer-fields">
<fieldset><legend>Layout</legend>{spec}
<div class="explorer-axes"></div></fieldset>
<fieldset><legend>Move to (optional)</legend>{to}
<div class="explorer-axes"></div></fieldset>
</div>
</form>
<p class="explorer-answer" role="status"></p>
<div class="explorer-result">
<div class="explorer-pictures"></div>
<div class="explorer-table" role="group" tabindex="0"
  aria-label="What each device holds"></div>
"""


@dataclass(frozen=True)
class Place:
    """The place of a device in a mesh: no device is asked anything."""

    id: int
    process_index: int = 0
    platform: str = "cpu"
    device_kind: str = "cpu"


class explorer(nodes.General, nodes.Element):  # noqa: N801
    """The explorer, with what is shown in its place without a script."""


class Explorer(SphinxDirective):
    """An explorer that begins with some shape, mesh and spec.

    With "address", the address of the page keeps what the reader chooses.
    """

    option_spec = {  # noqa: RUF012
        "shape": directives.unchanged_required,
        "mesh": directives.unchanged_required,
        "spec": directives.unchanged_required,
        "dtype": directives.unchanged_required,
        "address": directives.flag,
    }

    def run(self) -> list[nodes.Node]:
        """Give the explorer, and the same choice as a drawing."""
        choice = {
            "shape": "8, 16",
            "mesh": "data:2, model:4",
            "spec": 'P(None, "model")',
            "dtype": "float32",
            **self.options,
        }
        try:
            picture, words = draw(self.env, choice)
        except (SyntaxError, ValueError) as error:
            raise self.error(f"not a layout: {error}") from error
        still = nodes.container(
            "",
            *self.parse_text_to_nodes(WITHOUT_SCRIPT),
            nodes.raw("", picture, format="html"),
            classes=["explorer-still"],
        )
        code = nodes.literal_block("", "", language="python")
        return [explorer("", still, code, choice=choice, words=words)]


def drawn(env: BuildEnvironment) -> dict[str, tuple[str, str]]:
    """Give what was drawn, by the choice: as HTML, and in words."""
    if not hasattr(env, "explorer_drawn"):
        env.explorer_drawn = {}
    return env.explorer_drawn


def merge(
    app: Sphinx,
    env: BuildEnvironment,
    docnames: list[str],
    other: BuildEnvironment,
) -> None:
    """Keep what a process drew that read some of the pages."""
    drawn(env).update(drawn(other))


def draw(env: BuildEnvironment, choice: dict[str, str]) -> tuple[str, str]:
    """Draw a choice, unless it was drawn before."""
    known, key = drawn(env), repr(choice)
    if key not in known:
        drawing = shardbook.draw(abstract_array(choice))
        known[key] = drawing._repr_html_(), repr(drawing)
    return known[key]


def abstract_array(choice: dict[str, str]) -> Any:
    """Lay out an array as an author writes it in the options."""
    import jax
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    sizes = {
        name.strip(): int(size)
        for name, size in (
            axis.split(":") for axis in choice["mesh"].split(",")
        )
    }
    spec = ast.parse(choice["spec"], mode="eval").body.args
    count = np.prod(list(sizes.values()))
    devices = np.array([Place(number) for number in range(count)])
    mesh = Mesh(devices.reshape(*sizes.values()), tuple(sizes))
    return jax.ShapeDtypeStruct(
        tuple(map(int, choice["shape"].split(","))),
        choice["dtype"],
        sharding=NamedSharding(
            mesh, PartitionSpec(*map(ast.literal_eval, spec))
        ),
    )


def form(choice: dict[str, str]) -> str:
    """Write the form that the script reads."""

    def field(title: str, name: str, value: str) -> str:
        return (
            f'<label>{title} <input name="{name}" '
            'autocapitalize="off" spellcheck="false" '
            f'value="{html.escape(value)}"></label>'
        )

    return FORM.format(
        shape=field("Shape", "shape", choice["shape"]),
        mesh=field("Mesh", "mesh", choice["mesh"]),
        spec=field("Spec", "spec", choice["spec"]),
        to=field("Spec", "to", ""),
        dtypes="".join(
            f'<option data-bytes="{np.dtype(name).itemsize}"'
            f"{' selected' * (name == choice['dtype'])}>{name}</option>"
            for name in DTYPES
        ),
    )


def visit(self: Any, node: explorer) -> None:
    """Write the form, and the places for what the script will show."""
    self.body.append('<div class="shardbook-explorer">')
    still, code = node.children
    still.walkabout(self)
    self.body.append(form(node["choice"]))
    code.walkabout(self)
    self.body.append("</div>")
    if "address" not in node["choice"]:
        page = self.builder.get_relative_uri(
            self.builder.current_docname, PAGE
        )
        self.body.append(
            f'<p><a class="explorer-link" href="{page}">'
            "Open it in the layout explorer</a></p>"
        )
    self.body.append("</div>")
    raise nodes.SkipNode


def visit_in_markdown(self: Any, node: explorer) -> None:
    """Write what the first choice is."""
    block = f"```text\n{node['words']}\n```"
    self.add(block, prefix_eol=2, suffix_eol=2)
    raise nodes.SkipNode


def add_to_page(
    app: Sphinx,
    pagename: str,
    templatename: str,
    context: dict[str, Any],
    doctree: nodes.document | None,
) -> None:
    """Load the script where there is an explorer, and nowhere else."""
    if doctree is not None and next(doctree.findall(explorer), None):
        app.add_css_file("explorer.css")
        app.add_js_file("explorer.js", loading_method="defer")


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_node(
        explorer, html=(visit, None), markdown=(visit_in_markdown, None)
    )
    app.add_directive("explorer", Explorer)
    app.connect("env-merge-info", merge)
    app.connect("html-page-context", add_to_page)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
