"""The first use of a term on a page leads to the glossary."""

import re

from building import GOOD, Build, cell

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

box
  What a parameter is in.
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
The striped boxes are sums. A parameter is in a {term}`box`.
"""
PREDICTION = """
:::{predict} Is it a tree?
- [x] A tree
- [ ] A mesh axis
Because of the tree.
:::
"""
LINK = re.compile(
    r'<a class="[^"]*first-use[^"]*" href="([^"]*)"><span[^>]*>([^<]*)<'
)


PAGES = {
    "glossary": GLOSSARY,
    "page": PAGE,
    "other": "\nA tree again.\n" + cell("print('a tree')"),
    "question": PREDICTION + cell("print('A tree')"),
}
FOUND = {
    "page": [
        ("glossary.html#term-tree", "Trees"),
        ("glossary.html#term-tree-mode", "tree mode"),
        ("glossary.html#term-Variable", "Variable"),
        ("glossary.html#term-mesh-axis", "mesh axes"),
        ("glossary.html#term-box", "box"),
    ],
    "other": [("glossary.html#term-tree", "tree")],
    "glossary": [],
    "question": [],
}


def test_the_first_use_is_linked(build_here: Build) -> None:
    """A term is linked once on a page, in running text, in each form."""
    warnings, output = build_here(
        {name: GOOD + text for name, text in PAGES.items()}
    )

    assert warnings == ""
    for name, links in FOUND.items():
        html = (output / f"{name}.html").read_text("utf-8")
        assert LINK.findall(html) == links, name
