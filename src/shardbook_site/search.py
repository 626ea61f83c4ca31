"""The text of all pages, by sections, for the page of the search.

Sphinx's own index has the words of a page, but not which of them follow
each other, and its summaries begin with the menu of the page.
"""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.addnodes import desc_content, desc_signature
from sphinx.application import Sphinx

from shardbook import book
from shardbook_site.problems import PAGES

PLACES = (nodes.section, nodes.term, desc_signature)
BLOCKS = (nodes.paragraph, nodes.literal_block, nodes.row, desc_signature)
# What nobody looks for: outputs, and the facts of other pages.
APART = {
    "cell_output",
    "error-list",
    "problem-facts",
    "problem-map",
    "toctree-wrapper",
}
# Each of its sections has in its title what no page explains.
ELSEWHERE = "reference/not_here"


def words_of(node: nodes.Node) -> str:
    """Return the text of a node, without HTML that its author wrote."""
    if not [*node.findall(nodes.raw)]:
        return node.astext()
    copy = node.deepcopy()
    for raw in [*copy.findall(nodes.raw)]:
        raw.parent.remove(raw)
    return copy.astext()


def text_of(node: nodes.Node) -> str:
    """Return the text of a node; each of its lines is a sentence."""
    cells = node.children if isinstance(node, nodes.row) else [node]
    lines = [
        " ".join(line.split())
        for cell in cells
        for line in words_of(cell).splitlines()
    ]
    return (" · " if len(cells) > 1 else "\n").join(filter(None, lines))


def places_of(node: nodes.Element) -> list[nodes.Element]:
    """Return what a node is about: terms, an object, or its section."""
    if isinstance(node, PLACES):
        return [node]
    # The text of a row is that of its cells.
    kinds = nodes.document | nodes.entry
    if isinstance(node.parent, kinds) or APART & {*node["classes"]}:
        return []
    if isinstance(node, nodes.definition | desc_content):
        above: list[nodes.Element] = [
            each for each in node.parent if isinstance(each, PLACES)
        ]
        if any(each["ids"] for each in above):
            return above
    return places_of(node.parent)


def link_of(node: nodes.Node) -> str:
    """Return where the page's author leads from here, if anywhere."""
    if not isinstance(node, nodes.reference):
        return ""
    by_author = "first-use" not in node["classes"]
    return str(node.get("refuri", "")) if by_author else ""


def pieces_of(section: nodes.Element) -> list[tuple[str, str]]:
    """Return each part of a section's text, and where it leads."""
    return [
        (part.astext(), link_of(part))
        for paragraph in section.findall(nodes.paragraph)
        for part in paragraph
    ]


def sections_of(
    page: str, tree: nodes.document, front: dict[str, str]
) -> list[dict[str, Any]]:
    """List what there is to find on a page.

    Args:
        page: The name of the page.
        tree: What the page says.
        front: The front matter of the page.

    Returns:
        For each section, object and term: the page and its title, the id
        and the title, other names, the messages that it explains, and its
        blocks of text, prose first. The page itself is its first section,
        without id; of the page ELSEWHERE there are the others alone, each
        with its text and links in pieces.
    """
    found: dict[int, dict[str, Any]] = {}
    for node in tree.findall(nodes.Element):
        if isinstance(node, PLACES) and node["ids"]:
            name = node["ids"][0]
            is_object = isinstance(node, desc_signature)
            head = node[0] if isinstance(node, nodes.section) else node
            found[id(node)] = {
                "page": page,
                "id": name if found else "",
                "title": name if is_object else text_of(head),
                "names": [name.rpartition(".")[2]] * is_object,
                "messages": [],
                "text": [],
                "code": [],
            }
        if isinstance(node, BLOCKS):
            text = text_of(node)
            kind, blocks = "text", [text]
            if isinstance(node, nodes.literal_block):
                # A docstring is a sentence like others.
                kind, lines = "code", text.replace('"""', "").splitlines()
                # Each page prints its versions.
                blocks = [
                    line
                    for line in lines
                    if line and "jax.__version__}" not in line
                ]
            for place in places_of(node):
                if id(place) in found:
                    found[id(place)][kind] += blocks
    sections = [*found.values()]
    for section in sections:
        section["text"] += section.pop("code")
    if sections:
        words = [front.get(k, "") for k in ("keywords", "category", "tags")]
        names = ", ".join(filter(None, words)).split(", ")
        sections[0]["names"] = [page.rpartition("/")[2], *names]
        sections[0]["text"].insert(0, front.get("summary", ""))
    by_title = {section["title"]: section for section in sections}
    for each in book.explanations():
        if each.page == page:
            by_title[each.title]["messages"] += each.messages
    if page == ELSEWHERE:
        topics = [*tree.findall(nodes.section)]
        for section, topic in zip(sections, topics, strict=True):
            section["names"] = section["title"].split(", ")
            section["elsewhere"] = pieces_of(topic)
        return sections[1:]
    return [{**each, "on": sections[0]["title"]} for each in sections]


def add_sections(
    app: Sphinx,
    page: str,
    template: str,
    context: dict[str, Any],
    tree: nodes.document | None,
) -> None:
    """Write the sections of all pages, for the page of the search."""
    if page == "search":
        # The problems first; their pages have the solutions.
        pages = app.env.found_docs - {"reference/solutions"}
        order = [*PAGES, *sorted(pages - PAGES.keys())]
        sections = [
            section
            for name in order
            if name in pages
            for section in sections_of(
                name,
                app.env.get_and_resolve_doctree(
                    name, app.builder, tags=app.tags
                ),
                app.env.metadata[name],
            )
        ]
        found = json.dumps(sections, ensure_ascii=False)
        text = f"const SECTIONS = {found};\n"
        digest = sha256(text.encode()).hexdigest()[:8]
        static = Path(app.outdir, "_static")
        static.mkdir(parents=True, exist_ok=True)
        (static / "sections.js").write_text(text, "utf-8")
        context["sections"] = f"sections.js?v={digest}"


def setup(app: Sphinx) -> None:
    """Wait for the page of the search, which Sphinx writes last."""
    app.connect("html-page-context", add_sections)
