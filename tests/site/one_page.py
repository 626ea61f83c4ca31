"""Build one page, strictly, and execute no other.

"nox -s problem -- NAME" runs this. The other pages are built too, so that
links to them and terms of the glossary are found. A page that is not of a
problem is named by its path in docs/, such as first_look.
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
    """Build a page; return the exit status."""
    paths = (DOCS / "problems" / f"{name}.md", DOCS / f"{name}.md")
    pages = [path for path in paths if path.exists()]
    if not pages:
        sys.exit(f"There is no {name}.md in {paths[0].parent} or {DOCS}")
    others = [
        f"docs/{path.relative_to(DOCS)}"
        for path in executed_pages(DOCS)
        if path not in pages
    ]
    nocolor()
    # Of other packages.
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
