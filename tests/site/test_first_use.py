"""The first use of a term on a page leads to the glossary."""

import re
from pathlib import Path

from books import GOOD, cell, run_docs, write_book

GLOSSARY = """
```{glossary}
tree
  Something.

tree mode
  Something else, of a tree.

mesh axis
  A direction.

Variable
  A thing.
```
"""
PAGE = """
## A tree in a heading

No `tree` in code, no [tree](index.md) in a link, no subtree, no tree-like.

:::{admonition} Closed
:collapsible: closed

A tree in a fold.
:::

Trees come first, then a tree, and *tree mode* twice: tree mode.
Some variables, one Variable, two mesh axes.
"""


def test_the_first_use_is_linked(tmp_path: Path) -> None:
    """Once on each page, in running text, in each form of the word."""
    write_book(
        tmp_path,
        {
            "glossary": GOOD + GLOSSARY,
            "page": GOOD + PAGE,
            "other": GOOD + "\nA tree again.\n" + cell("print('a tree')"),
        },
    )
    result = run_docs(tmp_path)
    book = tmp_path / "docs" / "_build" / "html"

    def links(name: str) -> list[tuple[str, str]]:
        html = (book / f"{name}.html").read_text("utf-8")
        return re.findall(
            r'<a class="first-use [^"]*" href="([^"]*)">'
            r"<span>([^<]*)</span>",
            html,
        )

    assert result.returncode == 0, result.stdout
    assert links("page") == [
        ("glossary.html#term-tree", "Trees"),
        ("glossary.html#term-tree-mode", "tree mode"),
        ("glossary.html#term-Variable", "Variable"),
        ("glossary.html#term-mesh-axis", "mesh axes"),
    ]
    assert links("other") == [("glossary.html#term-tree", "tree")]
    assert links("glossary") == []
