"""The first use of a term on a page leads to the glossary."""

import re
from pathlib import Path

import pytest
from building import GOOD, cell
from conftest import Build

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
PREDICTION = """
:::{predict} Is it a tree?
- [x] A tree
- [ ] A mesh axis
Because of the tree.
:::
"""
LINK = re.compile(
    r'<a class="first-use [^"]*" href="([^"]*)"><span>([^<]*)</span>'
)


@pytest.fixture(scope="module")
def book(build_here: Build) -> Path:
    """Build pages with terms of a glossary."""
    warnings, output = build_here(
        {
            "glossary": GOOD + GLOSSARY,
            "page": GOOD + PAGE,
            "other": GOOD + "\nA tree again.\n" + cell("print('a tree')"),
            "question": GOOD + PREDICTION + cell("print('A tree')"),
        }
    )
    assert warnings == ""
    return output


@pytest.mark.parametrize(
    ("page", "links"),
    [
        (
            "page",
            [
                ("glossary.html#term-tree", "Trees"),
                ("glossary.html#term-tree-mode", "tree mode"),
                ("glossary.html#term-Variable", "Variable"),
                ("glossary.html#term-mesh-axis", "mesh axes"),
            ],
        ),
        ("other", [("glossary.html#term-tree", "tree")]),
        ("glossary", []),
        ("question", []),
    ],
)
def test_the_first_use_is_linked(
    book: Path, page: str, links: list[tuple[str, str]]
) -> None:
    """A term is linked once on a page, in running text, in each form."""
    html = (book / f"{page}.html").read_text("utf-8")

    assert LINK.findall(html) == links
