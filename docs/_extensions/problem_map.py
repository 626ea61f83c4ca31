"""Show the problems: in the contents, as a map, with their solutions."""

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from shardbook.problems import NAMES


class ProblemContents(SphinxDirective):
    """The problems' pages in the contents, in the order of the map."""

    def run(self) -> list[nodes.Node]:
        """Give a toctree, as if each page were named in one by hand."""
        entries = "\n".join(f"problems/{name}" for name in NAMES)
        return self.parse_text_to_nodes(
            f":::{{toctree}}\n:hidden:\n:caption: Problems\n{entries}\n:::"
        )


class ProblemMap(SphinxDirective):
    """What each problem is about, from the front matter of its page."""

    def run(self) -> list[nodes.Node]:
        """Leave a place, to be filled when all the pages are read."""
        return [problem_map()]


class problem_map(nodes.General, nodes.Element):  # noqa: N801
    """The place of the map."""


class Solutions(SphinxDirective):
    """The documentation of each solution, with a link to its page."""

    def run(self) -> list[nodes.Node]:
        """Document each module of the map."""
        return self.parse_text_to_nodes(
            "\n".join(
                f"## {name}\n\n"
                f"The page of the problem: "
                f"[](/problems/{name}.md)\n\n"
                "```{eval-rst}\n"
                f".. automodule:: shardbook.problems.{name}\n"
                "   :members:\n"
                "```\n"
                for name in NAMES
            ),
            allow_section_headings=True,
        )


def fill_maps(app: Sphinx, tree: nodes.document, docname: str) -> None:
    for place in tree.findall(problem_map):
        items = []
        for name in NAMES:
            page = f"problems/{name}"
            facts = app.env.metadata[page]
            address = app.builder.get_relative_uri(docname, page)
            title = app.env.titles[page].astext()
            link = nodes.reference("", title, internal=True, refuri=address)
            level = nodes.inline("", f" · {facts['difficulty']}")
            summary = nodes.paragraph("", facts["summary"])
            items.append(
                nodes.list_item(
                    "", nodes.paragraph("", "", link, level), summary
                )
            )
        place.replace_self(
            nodes.enumerated_list("", *items, classes=["problem-map"])
        )


def show_facts(app: Sphinx, tree: nodes.document) -> None:
    """Show a problem's difficulty, category and tags under its title."""
    facts = app.env.metadata[app.env.docname]
    if "difficulty" not in facts:
        return
    words = f"{facts['difficulty']} · {facts['category']} · {facts['tags']}"
    title = next(tree.findall(nodes.title))
    line = nodes.paragraph(text=words, classes=["problem-facts"])
    title.parent.insert(title.parent.index(title) + 1, line)


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("problem-contents", ProblemContents)
    app.add_directive("problem-map", ProblemMap)
    app.add_directive("solutions", Solutions)
    app.add_node(problem_map)
    app.connect("doctree-read", show_facts)
    app.connect("doctree-resolved", fill_maps)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
