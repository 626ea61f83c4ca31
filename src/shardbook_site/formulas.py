"""Formulas are MathML in the pages, which needs no script."""

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator


def write_mathml(
    translator: HTML5Translator, node: nodes.math | nodes.math_block
) -> None:
    """Write a formula."""
    block = isinstance(node, nodes.math_block)
    translator.body.append(tex2mathml(node.astext(), as_block=block))
    raise nodes.SkipNode


def setup(app: Sphinx) -> None:
    """Offer it to `html_math_renderer`."""
    both = (write_mathml, None)
    app.add_html_math_renderer("mathml", both, both)
