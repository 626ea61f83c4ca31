"""Link the first use of each term of the glossary, on each page."""

import re
from collections.abc import Iterator

from docutils import nodes
from predict import prediction_outcome
from sphinx.application import Sphinx
from sphinx.util.nodes import make_refnode

# No running text, or closed until the reader opens it.
APART = (
    nodes.admonition,
    nodes.caption,
    nodes.field_list,
    nodes.literal,
    nodes.raw,
    nodes.reference,
    prediction_outcome,
)


def forms(term: str) -> str:
    """Give a pattern of a term and its plural.

    A small first letter stands for a capital too, at the start of a
    sentence; a capital stands for itself alone.
    """
    start, rest = re.escape(term[0]), re.escape(term[1:])
    if start.islower():
        start = f"[{start}{start.upper()}]"
    return f"{start}{re.sub('is$', '[ie]s', rest)}(?:e?s)?"


def running_text(tree: nodes.document) -> Iterator[nodes.Text]:
    """Give the text of the plain paragraphs of a page, piece by piece."""
    for paragraph in tree.findall(nodes.paragraph):
        if paragraph["classes"]:
            continue
        in_link = False
        for text in paragraph.findall(nodes.Text):
            node = text.parent
            if isinstance(node, nodes.raw):
                # A link may be written in HTML.
                in_link = text.startswith("<a ") or (
                    in_link and text != "</a>"
                )
            if in_link:
                continue
            while node is not None and not isinstance(node, APART):
                node = node.parent
            if node is None:
                yield text


def link(app: Sphinx, tree: nodes.document, docname: str) -> None:
    """Link each term where the page first uses it."""
    new = {
        name: place
        for name, _, kind, *place, _ in app.env.domains["std"].get_objects()
        if kind == "term"
    }
    # The glossary defines its terms, and needs no links to itself.
    if not new or docname in {page for page, _ in new.values()}:
        return
    # "tree mode" before "tree", and no "tree" inside of a "tree mode".
    longest = sorted(new, key=len, reverse=True)
    pattern = re.compile(
        r"(?<![\w-])(?:"
        + "|".join(f"({forms(name)})" for name in longest)
        + r")(?![\w-])"
    )
    for text in list(running_text(tree)):
        pieces, end = [], 0
        for found in pattern.finditer(text):
            place = new.pop(longest[found.lastindex - 1], None)
            if place:
                pieces.append(nodes.Text(text[end : found.start()]))
                word = nodes.Text(found[0])
                reference = make_refnode(
                    app.builder, docname, *place, nodes.inline("", "", word)
                )
                reference["classes"].append("first-use")
                pieces.append(reference)
                end = found.end()
        if pieces:
            pieces.append(nodes.Text(text[end:]))
            text.parent.replace(text, pieces)


def setup(app: Sphinx) -> dict[str, bool]:
    # Before the map of problems is filled, in which all is a link.
    app.connect("doctree-resolved", link, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
