"""Build one page, strictly, and execute no other.

"nox -s problem -- NAME" runs this. The other pages are built too, so that
links to them and terms of the glossary are found. A page is named as for
"nox -s page -- NAME": state_zero_kernel, errors/jit or guides/errors/jit.
"""

import sys
import warnings
from tempfile import TemporaryDirectory

from sphinx.application import Sphinx
from sphinx.util.console import nocolor

from shardbook_site.cells import executed_pages
from shardbook_site.run_page import DOCS, ROOT, page_of


def main(name: str) -> int:
    """Build a page; return the exit status."""
    page = page_of(name)
    others = [
        f"docs/{path.relative_to(DOCS)}"
        for path in executed_pages(DOCS)
        if path != page
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
                "execution_exempt": ["*"],
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
