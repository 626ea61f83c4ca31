"""Let the reader pick an answer before the output of a cell opens.

A question stands before the cell that answers it. The build fails unless
that cell printed the right choice, and none of the others.
"""

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

LOGGER = logging.getLogger(__name__)
CHOICE = re.compile(r"- \[(?P<mark>[ x])\] (?P<words>.+)")


class prediction(nodes.General, nodes.Element):  # noqa: N801
    """A question with its choices."""


class prediction_question(nodes.TextElement):  # noqa: N801
    """What is asked."""


class prediction_choice(nodes.TextElement):  # noqa: N801
    """An answer to choose."""


class prediction_outcome(nodes.General, nodes.Element):  # noqa: N801
    """The fold: the reason, and the output of the cell."""


class Predict(SphinxDirective):
    """A question about what the next cell prints, its choices, a reason."""

    required_arguments = 1
    final_argument_whitespace = True
    has_content = True

    def run(self) -> list[nodes.Node]:
        """Leave the question; it meets its cell when the page is read."""
        choices = [CHOICE.fullmatch(line) for line in self.content]
        if None in choices:
            choices = choices[: choices.index(None)]
        reason = "\n".join(self.content[len(choices) :])
        marks = [choice["mark"] for choice in choices]
        if len(marks) < 2 or marks.count("x") != 1 or not reason.strip():
            raise self.error(
                'predict: needs two lines "- [ ] words" or more, one of '
                'them with "[x]", and below them the reason'
            )
        place = prediction()
        self.set_source_info(place)
        name = f"predict-{self.env.new_serialno('predict')}"
        place += prediction_question("", "", *self._inline(*self.arguments))
        for choice in choices:
            place += prediction_choice(
                "",
                "",
                *self._inline(choice["words"]),
                name=name,
                value="right" if choice["mark"] == "x" else "wrong",
                words=choice["words"],
            )
        because = nodes.container(classes=["predict-reason"])
        because += self.parse_text_to_nodes(reason)
        place += prediction_outcome("", because)
        return [place]

    def _inline(self, text: str) -> list[nodes.Node]:
        children, messages = self.parse_inline(text)
        return [*children, *messages]


def holds(words: str, printed: str) -> bool:
    """Tell whether each code literal of a choice was printed.

    A choice without a literal must have been printed as it stands. What is
    only a part of a word or of a number does not count.
    """
    return all(
        re.search(
            rf"(?<![\w.,-]){re.escape(claim)}(?![\w-]|[.,]\w)", printed
        )
        for claim in re.findall("`(.+?)`", words) or [words]
    )


def printed_by(output: nodes.Element) -> str:
    """Give the text that a reader sees, without pictures and tables."""
    return "\n".join(
        text.astext()
        for text in output.findall(nodes.literal_block)
        if not any(
            other.get("mime_type") == "text/html"
            for other in text.parent.parent
        )
    )


def join(app: Sphinx, tree: nodes.document) -> None:
    """Fold the output of the cell after each question, and check it."""
    run = app.env.nb_metadata[app.env.docname].get("exec_data") or {}
    for place in list(tree.findall(prediction)):
        *choices, outcome = place[1:]
        place.remove(outcome)
        cell = place.next_node(descend=False, siblings=True)
        output = cell[-1] if isinstance(cell, nodes.container) else {}
        if output.get("nb_element") != "cell_code_output":
            off = app.config.nb_execution_mode == "off"
            if off or run.get("traceback"):
                # Nothing ran, or the page failed before that cell.
                continue
            LOGGER.warning(
                "predict: no cell with an output follows", location=place
            )
            continue
        cell.replace(output, outcome)
        outcome += output
        printed = printed_by(output)
        for choice in choices:
            right = choice["value"] == "right"
            if holds(choice["words"], printed) != right:
                LOGGER.warning(
                    "predict: the next cell %s %r, the %s choice",
                    "does not print" if right else "prints",
                    choice["words"],
                    choice["value"],
                    location=place,
                )


def add_script(
    app: Sphinx,
    pagename: str,
    templatename: str,
    context: dict[str, Any],
    doctree: nodes.document | None,
) -> None:
    """Load the script where there is a question."""
    if doctree and any(doctree.findall(prediction)):
        app.add_js_file("predict.js", loading_method="defer")


def tags(before: str, after: str) -> tuple[Any, Any]:
    """Write HTML around what a node holds, with the node's attributes."""
    return (
        lambda writer, node: writer.body.append(
            before.format_map(node.attributes)
        ),
        lambda writer, node: writer.body.append(after),
    )


def lines(before: str, after: str, apart: int) -> tuple[Any, Any]:
    """Write Markdown around what a node holds, so many lines apart."""
    return (
        lambda writer, node: writer.add(before, prefix_eol=apart),
        lambda writer, node: writer.add(after, suffix_eol=apart),
    )


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("predict", Predict)
    app.add_node(
        prediction,
        html=tags(
            '<fieldset class="predict">\n',
            '</ul>\n<div role="status"></div>\n</fieldset>\n',
        ),
        markdown=lines("", "", 2),
    )
    app.add_node(
        prediction_question,
        html=tags("<legend>", "</legend>\n<ul>\n"),
        markdown=lines("**", "**", 2),
    )
    # The buttons do nothing without the script, which shows them.
    radio = '<input type="radio" name="{name}" value="{value}" hidden>'
    app.add_node(
        prediction_choice,
        html=tags(f"<li><label>{radio} ", "</label></li>\n"),
        markdown=lines("- ", "", 1),
    )
    app.add_node(
        prediction_outcome,
        html=tags(
            '<details class="predict-outcome">\n'
            "<summary>Show what happens</summary>\n",
            "</details>\n",
        ),
        markdown=lines("", "", 2),
    )
    app.connect("doctree-read", join)
    app.connect("html-page-context", add_script)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
