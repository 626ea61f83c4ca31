"""Let the reader pick an answer before the output of a cell opens.

A question stands before the cell that answers it. The build fails unless
that cell printed the right choice, and none of the others.
"""

import re
from dataclasses import dataclass

from docutils import nodes
from myst_nb.sphinx_ import NbMetadataCollector
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

from shardbook_site.markup import only_html

LOGGER = logging.getLogger(__name__)
CHOICE = re.compile(r"- \[(?P<mark>[ x])\] (?P<words>.+)")
QUESTION = '<div class="predict" role="radiogroup" aria-labelledby="{}">'
# Without the script the buttons do nothing; it shows them.
RADIO = '<label><input type="radio" name="{}" value="{}" hidden> '
FOLD = (
    '<details class="predict-outcome">\n'
    "<summary>Show what happens</summary>\n"
)


@dataclass(frozen=True)
class Choice:
    """An answer to choose."""

    words: str
    right: bool


class prediction(nodes.General, nodes.Element):  # noqa: N801
    """A question, its choices and the reason, until it meets its cell."""


class Predict(SphinxDirective):
    """A question about what the next cell prints, its choices, a reason."""

    required_arguments = 1
    final_argument_whitespace = True
    has_content = True

    def run(self) -> list[nodes.Node]:
        """Return a question that :func:`join` completes."""
        choices = []
        for line in self.content:
            if not (found := CHOICE.fullmatch(line)):
                break
            choices.append(Choice(found["words"], found["mark"] == "x"))
        reason = "\n".join(self.content[len(choices) :])
        right = [choice for choice in choices if choice.right]
        if len(choices) < 2 or len(right) != 1 or not reason.strip():
            raise self.error(
                'predict: needs two lines "- [ ] words" or more, one of '
                'them with "[x]", and below them the reason'
            )
        name = f"predict-{self.env.new_serialno('predict')}"
        question = nodes.paragraph(classes=["predict-question"])
        question["ids"].append(name)
        question += nodes.strong("", "", *self.inline(self.arguments[0]))
        answers = nodes.bullet_list("", *self.answers(name, choices))
        place = prediction(choices=choices)
        self.set_source_info(place)
        place += only_html(QUESTION.format(name))
        place += question
        place += answers
        place += only_html('<div role="status"></div>\n</div>')
        place += nodes.container(
            "",
            *self.parse_text_to_nodes(reason),
            classes=["predict-reason"],
        )
        return [place]

    def answers(
        self, name: str, choices: list[Choice]
    ) -> list[nodes.list_item]:
        """Return a radio button and its label for each choice."""
        items = []
        for choice in choices:
            value = "right" if choice.right else "wrong"
            label = nodes.paragraph(classes=["predict-choice"])
            label += only_html(RADIO.format(name, value))
            label += self.inline(choice.words)
            label += only_html("</label>")
            items.append(nodes.list_item("", label))
        return items

    def inline(self, text: str) -> list[nodes.Node]:
        """Parse text within a line."""
        children, messages = self.parse_inline(text)
        return [*children, *messages]


def was_printed(words: str, printed: str) -> bool:
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


def output_after(place: nodes.Element) -> nodes.Element | None:
    """Return the output of the cell that follows, as MyST-NB makes it."""
    cell = place.next_node(descend=False, siblings=True)
    if isinstance(cell, nodes.container) and cell.children:
        output = cell.children[-1]
        if isinstance(output, nodes.container) and (
            output.get("nb_element") == "cell_code_output"
        ):
            return output
    return None


def printed_by(output: nodes.Element) -> str:
    """Return the text that a reader sees, without pictures and tables."""
    replaced = {
        text
        for bundle in output.findall(nodes.container)
        if any(
            isinstance(kind, nodes.container)
            and kind.get("mime_type") == "text/html"
            for kind in bundle.children
        )
        for text in bundle.findall(nodes.literal_block)
    }
    return "\n".join(
        text.astext()
        for text in output.findall(nodes.literal_block)
        if text not in replaced
    )


def join(app: Sphinx, tree: nodes.document) -> None:
    """Fold the output of the cell after each question, and check it."""
    run = NbMetadataCollector.get_exec_data(app.env, app.env.docname)
    for place in list(tree.findall(prediction)):
        output = output_after(place)
        *question, reason = place.children
        if output:
            check(place, printed_by(output))
            output.parent.replace(
                output,
                [
                    only_html(FOLD),
                    reason,
                    output,
                    only_html("</details>"),
                ],
            )
        elif run and not run["error"]:
            LOGGER.warning(
                "predict: no cell with an output follows", location=place
            )
        place.replace_self(question)


def check(place: prediction, printed: str) -> None:
    """Warn unless the right choice was printed, and no other."""
    for choice in place["choices"]:
        if was_printed(choice.words, printed) != choice.right:
            LOGGER.warning(
                "predict: the next cell %s %r, the %s choice",
                "does not print" if choice.right else "prints",
                choice.words,
                "right" if choice.right else "wrong",
                location=place,
            )


def setup(app: Sphinx) -> None:
    """Add the directive, and join each question with its cell."""
    app.add_directive("predict", Predict)
    app.add_node(prediction)
    app.connect("doctree-read", join)
