"""The problems: in the contents, on the map, and on their own pages."""

import re
from pathlib import Path
from typing import Any, cast

import yaml
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.builders.html import StandaloneHTMLBuilder
from sphinx.environment import BuildEnvironment
from sphinx.util.docutils import SphinxDirective

from shardbook.book import about, explanations, section_id
from shardbook.problems import NAMES, PARTS
from shardbook_site import chips
from shardbook_site.explorer import abstract_array
from shardbook_site.markup import render, without_docstrings
from shardgrade.reader import attempt_files
from shardscope import draw
from shardscope.hlo import Module
from shardscope.programs.communication import communication

PAGES = {f"problems/{name}": name for name in NAMES}
PLACES = {page: place for place, page in enumerate(PAGES, 1)}


def install_command(env: BuildEnvironment) -> str:
    """Return the line that installs the package."""
    address = env.config.html_theme_options.get("repository_url")
    if address:
        return f"python3 -m pip install git+{address}"
    return "python3 -m pip install .  # in a clone of the repository"


def facts_of(name: str) -> dict[str, Any]:
    """Return what the front matter of a problem's page says of it."""
    facts = about(name)
    needs = [
        f"problems/{page}" if page in NAMES else page
        for page in facts.get("needs", "").split(", ")
    ]
    return {**facts, "name": name, "needs": [*filter(None, needs)]}


# A program of one collective, as a compiler would write it.
PROGRAM = """
%sum {{
  ROOT %z = f32[] add(%x, %y)
}}
ENTRY %main {{
  %before = f32[{shape}] parameter(0)
  %after = f32[] {kind}(%before), to_apply=%sum, dimensions={{0}},\
 replica_groups=mesh['data'={data},'model'={model}] {{'{axis}'}}
}}
"""


def picture(text: str) -> str:
    """Draw what YAML gives, on the axes "data" and "model".

    That is an array; or several by their names; or the collectives of a
    program one after another, each of the whole array that is gathered or
    added up.
    """
    given = yaml.safe_load(text)
    mesh = dict(zip(("data", "model"), given["mesh"], strict=True))
    if "collectives" in given:
        axis, (rows, columns) = given["axis"], given["shape"]
        figures = []
        for kind in given["collectives"]:
            part = mesh[axis] if kind == "all-gather" else 1
            text = PROGRAM.format(
                **mesh,
                axis=axis,
                kind=kind,
                shape=f"{rows // part},{columns}",
            )
            (each,) = communication(Module.of(text), mesh)
            figures.append(draw(each)._repr_html_())
        return _framed("".join(figures))
    arrays = {
        name: abstract_array(
            tuple(each["shape"]),
            mesh,
            [tuple(x) if isinstance(x, list) else x for x in each["spec"]],
        )
        for name, each in given.get("arrays", {"": given}).items()
    }
    html = "".join(
        draw({name: array})._repr_html_() for name, array in arrays.items()
    )
    # The devices are enough.
    return _framed(re.sub("<svg((?!</svg>).)*</svg>(?=<svg)", "", html))


def _framed(figures: str) -> str:
    # In Markdown, a line ends what is indented.
    figures = figures.replace("\n", "&#10;")
    return f'<div class="problem-picture">{figures}</div>'


def code_of(name: str) -> str:
    """Return a solution without long docstrings, which its starter has."""
    text = attempt_files.solution(name).replace(attempt_files.MARK, "")
    return without_docstrings(text)


class FromTemplate(SphinxDirective):
    """The Markdown that the template of the directive's name gives."""

    optional_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Fill the template, for the problem that the page names."""
        text = render(
            self.env,
            f"{self.name}.md",
            name=next(iter(self.arguments), ""),
            names=NAMES,
            parts=PARTS,
            facts_of=facts_of,
            minutes=sum(
                int(facts_of(name)["time"].split()[0]) for name in NAMES
            ),
            install=install_command(self.env),
            picture=picture,
            starter=attempt_files.starter,
            solution=code_of,
            chips=chips,
            explanations=explanations,
            section_id=section_id,
        )
        return self.parse_text_to_nodes(text, allow_section_headings=True)


def add_facts(app: Sphinx, name: str, source: list[str]) -> None:
    """Have the facts of a problem read, where they move no line."""
    if name in PAGES:
        source[0] += f"\n```{{problem-facts}} {PAGES[name]}\n```\n"


def place_facts(app: Sphinx, tree: nodes.document) -> None:
    """Show the facts under the title."""
    title = next(tree.findall(nodes.title), None)
    for facts in tree.findall(nodes.container):
        if title and "problem-facts" in facts["classes"]:
            facts.parent.remove(facts)
            title.parent.insert(title.parent.index(title) + 1, facts)
            break


def number(app: Sphinx, env: BuildEnvironment) -> list[str]:
    """Number the problems in the menu and above their pages.

    Sphinx's own numbers begin again in each part of the contents.
    """
    for name, place in PLACES.items():
        if name in env.tocs:
            title = env.titles[name].astext()
            first = next(env.tocs[name].findall(nodes.reference))
            first["secnumber"] = (place,)
            env.toc_secnumbers[name] = {
                f"#{nodes.make_id(title)}": (place,)
            }
    return []


def number_titles(
    app: Sphinx,
    page: str,
    template: str,
    context: dict[str, Any],
    tree: nodes.document | None,
) -> None:
    """Number a problem in the browser's tab, and where it is the next."""
    builder = cast(StandaloneHTMLBuilder, app.builder)
    _, before, after = builder.relations.get(page, [None] * 3)
    for name, titled in (
        (page, context),
        (before, context.get("prev")),
        (after, context.get("next")),
    ):
        if titled and name in PLACES:
            titled["title"] = f"{PLACES[name]}. {titled['title']}"


def setup(app: Sphinx) -> None:
    """Make a directive of each template in Markdown."""
    for path in Path(app.srcdir, "_templates").glob("*.md"):
        app.add_directive(path.stem, FromTemplate)
    app.connect("source-read", add_facts)
    app.connect("doctree-read", place_facts)
    # After Sphinx has numbered what is to be numbered.
    app.connect("env-get-updated", number, priority=900)
    app.connect("html-page-context", number_titles)
