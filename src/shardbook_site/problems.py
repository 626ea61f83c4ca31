"""The problems: in the contents, on the map, and on their own pages."""

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.docutils import SphinxDirective

from shardbook._pages import about
from shardbook.grading import attempt_files
from shardbook.problems import NAMES
from shardbook_site.markup import render


def install_command(env: BuildEnvironment) -> str:
    """Return the line that installs the package."""
    address = env.config.html_theme_options.get("repository_url")
    if address:
        return f"python3 -m pip install git+{address}"
    return "python3 -m pip install .  # in a clone of the repository"


class ProblemPart(SphinxDirective):
    """The Markdown that a template has for the problem of this page."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return what the template of the directive's name gives."""
        name = self.arguments[0]
        text = render(
            self.env,
            f"{self.name}.md",
            name=name,
            install=install_command(self.env),
            starter=attempt_files.starter(name),
        )
        return self.parse_text_to_nodes(text)


class ProblemList(SphinxDirective):
    """The Markdown that a template has for all problems."""

    def run(self) -> list[nodes.Node]:
        """Return what the template of the directive's name gives."""
        text = render(
            self.env,
            f"{self.name}.md",
            problems=[{"name": name, **about(name)} for name in NAMES],
        )
        return self.parse_text_to_nodes(text, allow_section_headings=True)


def show_facts(app: Sphinx, tree: nodes.document) -> None:
    """Show a problem's difficulty, category and tags under its title."""
    facts = app.env.metadata[app.env.docname]
    if "difficulty" not in facts:
        return
    words = f"{facts['difficulty']} · {facts['category']} · {facts['tags']}"
    title = next(tree.findall(nodes.title))
    line = nodes.paragraph(text=words, classes=["problem-facts"])
    title.parent.insert(title.parent.index(title) + 1, line)


def setup(app: Sphinx) -> None:
    """Add the directives: each has a template of its name."""
    for name in ("attempt", "solution"):
        app.add_directive(name, ProblemPart)
    for name in ("problem-contents", "problem-map", "solutions"):
        app.add_directive(name, ProblemList)
    app.connect("doctree-read", show_facts)
