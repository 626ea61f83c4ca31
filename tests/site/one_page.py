"""Build the page of one problem, strictly, and execute no other page.

"nox -s problem -- NAME" runs this. The other pages are built too, so that
links to them and terms of the glossary are found.
"""

import sys
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory

from sphinx.application import Sphinx
from sphinx.util.console import nocolor

from shardbook_site.cells import executed_pages

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def main(name: str) -> int:
    """Build the page of a problem; return the exit status."""
    page = DOCS / "problems" / f"{name}.md"
    others = [
        f"docs/{path.relative_to(DOCS)}"
        for path in executed_pages(DOCS)
        if path != page
    ]
    nocolor()
    # Of other packages; shardbook_site has its own raised.
    warnings.simplefilter("ignore", DeprecationWarning)
    warnings.simplefilter("ignore", PendingDeprecationWarning)
    with TemporaryDirectory() as folder:
        app = Sphinx(
            DOCS,
            ROOT,
            f"{folder}/html",
            f"{folder}/doctrees",
            "html",
            confoverrides={
                "execution_exempt": "*",
                "nb_execution_excludepatterns": others,
                "nitpicky": True,
            },
            status=None,
            warningiserror=True,
        )
        app.build()
        return app.statuscode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
