"""Link terms, helpers and types to where they are explained."""

import re
from collections.abc import Iterator
from inspect import getsource

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.nodes import make_refnode

from shardbook import inputs
from shardbook_site.markup import without_docstrings

# No running text, or closed until the reader opens it.
APART = (
    nodes.admonition,
    nodes.caption,
    nodes.field_list,
    nodes.literal,
    nodes.raw,
    nodes.reference,
)
APART_CLASSES = {
    "error-list",
    "predict-reason",
    "problem-facts",
    "problem-map",
}
# Terms that are ordinary words too, or mean something else in other trades.
# Only an author can tell, and links them: {term}`kernel`.
ORDINARY = {
    "box",
    "checkpoint",
    "committed",
    "filter",
    "kernel",
    "moment",
    "path",
    "rank",
    "reduced",
    "slice",
    "state",
    "trace",
}
IMPORTED = re.compile(
    r"^from shardbook\.inputs import (\([^)]*\)|.*)", re.M
)
# Annotations name where an object is defined, inventories where it is
# documented.
PUBLIC = {
    "flax.linen.linear.Dense": "flax.linen.Dense",
    "flax.linen.module.Module": "flax.linen.Module",
    "flax.nnx.graphlib.GraphDef": "flax.nnx.GraphDef",
    "flax.nnx.module.Module": "flax.nnx.Module",
    "flax.nnx.rnglib.Rngs": "flax.nnx.Rngs",
    "flax.nnx.statelib.State": "flax.nnx.State",
    "flax.nnx.training.optimizer.Optimizer": "flax.nnx.optimizer.Optimizer",
    "flax.nnx.variablelib.Variable": "flax.nnx.Variable",
    "jax.P": "jax.sharding.PartitionSpec",
    "jax._src.basearray.Array": "jax.Array",
    "jax._src.mesh.Mesh": "jax.sharding.Mesh",
    "jax._src.named_sharding.NamedSharding": "jax.sharding.NamedSharding",
    "jax._src.partition_spec.PartitionSpec": "jax.sharding.PartitionSpec",
    "jax._src.sharding.Sharding": "jax.sharding.Sharding",
    "jax.jaxlib._jax.Array": "jax.Array",
    "jaxlib._jax.Device": "jax.Device",
}


def use_public_name(
    app: Sphinx,
    env: BuildEnvironment,
    node: pending_xref,
    text: nodes.TextElement,
) -> None:
    """Let a reference to a private name lead to the documented one."""
    target = node.get("reftarget")
    node["reftarget"] = PUBLIC.get(target, target)


def forms(term: str) -> str:
    """Return a pattern of a term and its plural.

    A small first letter stands for a capital too, at the start of a
    sentence; a capital stands for itself alone.
    """
    start, rest = re.escape(term[0]), re.escape(term[1:])
    if start.islower():
        start = f"[{start}{start.upper()}]"
    return f"{start}{re.sub('is$', '[ie]s', rest)}(?:e?s)?"


def is_apart(node: nodes.Element | None) -> bool:
    """Tell whether a node is within what is no running text."""
    while node is not None:
        if isinstance(node, APART) or APART_CLASSES & {*node["classes"]}:
            return True
        node = node.parent
    return False


def running_text(tree: nodes.document) -> Iterator[nodes.Text]:
    """Yield the text of the plain paragraphs of a page, piece by piece."""
    for paragraph in tree.findall(nodes.paragraph):
        if paragraph["classes"]:
            continue
        in_link = False
        for text in paragraph.findall(nodes.Text):
            if isinstance(text.parent, nodes.raw):
                # A link may be written in HTML.
                in_link = text.startswith("<a ") or (
                    in_link and text != "</a>"
                )
            if not in_link and not is_apart(text.parent):
                yield text


def link_terms(app: Sphinx, tree: nodes.document, docname: str) -> None:
    """Link each term of the glossary where the page first uses it."""
    objects = app.env.domains.standard_domain.get_objects()
    new = {
        name: (page, anchor)
        for name, _, kind, page, anchor, _ in objects
        if kind == "term" and name not in ORDINARY
    }
    # The glossary defines its terms, and needs no links to itself.
    if not new or docname in {page for page, _ in new.values()}:
        return
    # "tree mode" before "tree", and no "tree" inside of a "tree mode".
    longest = sorted(new, key=len, reverse=True)
    either = "|".join(f"({forms(name)})" for name in longest)
    pattern = re.compile(rf"(?<![\w-])(?:{either})(?![\w-])")
    # What an author links looks the same, and is linked once, too.
    for word in tree.findall(nodes.inline):
        if "std-term" in word["classes"] and word.parent.get("refuri"):
            word.parent["classes"].append("first-use")
            anchor = word.parent["refuri"].partition("#")[2]
            new = {n: at for n, at in new.items() if at[1] != anchor}
    for text in list(running_text(tree)):
        pieces: list[nodes.Node] = []
        end = 0
        for found in pattern.finditer(text):
            place = new.pop(longest[(found.lastindex or 0) - 1], None)
            if place:
                pieces.append(nodes.Text(text[end : found.start()]))
                word = nodes.inline("", "", nodes.Text(found[0]))
                reference = make_refnode(app.builder, docname, *place, word)
                reference["classes"].append("first-use")
                pieces.append(reference)
                end = found.end()
        if pieces:
            pieces.append(nodes.Text(text[end:]))
            text.parent.replace(text, pieces)


def show_helpers(app: Sphinx, tree: nodes.document, docname: str) -> None:
    """Add the source of helpers to the fold with their import."""
    for code in list(tree.findall(nodes.literal_block)):
        fold = code.parent.parent
        if "above-input" not in fold.get("classes", ()):
            continue
        sources = [
            without_docstrings(getsource(helper))
            for name in imported_names(code.astext())
            if callable(helper := getattr(inputs, name))
        ]
        if sources:
            text = "\n\n".join(sources)
            fold["prompt_show"] += " and helpers"
            fold["prompt_hide"] += " and helpers"
            fold.append(nodes.paragraph("", "From shardbook.inputs:"))
            fold.append(nodes.literal_block(text, text, language="python"))


def imported_names(code: str) -> list[str]:
    """List what code imports from shardbook.inputs."""
    return re.findall(r"\w+", " ".join(IMPORTED.findall(code)))


def link_inputs(app: Sphinx, tree: nodes.document, docname: str) -> None:
    """Link what a page imports from shardbook.inputs, where it names it."""
    code = "\n".join(x.astext() for x in tree.findall(nodes.literal_block))
    imported = {*imported_names(code)}
    new = {
        name.rpartition(".")[2]: (page, anchor)
        for name, _, _, page, anchor, _ in (
            app.env.domains.python_domain.get_objects()
        )
        if name.startswith("shardbook.inputs.")
    }
    for word in list(tree.findall(nodes.literal)):
        name = re.sub(r"\(.*", "", word.astext(), flags=re.DOTALL)
        if name in imported & new.keys() and not is_apart(word.parent):
            place = new.pop(name)
            link = make_refnode(
                app.builder, docname, *place, word.deepcopy()
            )
            word.parent.replace(word, link)


def setup(app: Sphinx) -> None:
    """Connect before intersphinx, which has the usual priority of 500."""
    app.connect("missing-reference", use_public_name, priority=400)
    app.connect("doctree-resolved", link_terms)
    app.connect("doctree-resolved", link_inputs)
    app.connect("doctree-resolved", show_helpers)
