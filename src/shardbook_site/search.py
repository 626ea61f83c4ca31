"""The page of the search knows the messages of the guide to errors."""

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

from shardbook import book


def add_messages(
    app: Sphinx,
    page: str,
    template: str,
    context: dict[str, Any],
    tree: nodes.document | None,
) -> None:
    """Give the messages to the template, whose script looks for them."""
    if page == "search":
        context["messages"] = book.messages()


def setup(app: Sphinx) -> None:
    """Wait for the page of the search, which Sphinx writes last."""
    app.connect("html-page-context", add_messages)
