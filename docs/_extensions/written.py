"""The pages that a build has written, for what finishes them."""

from functools import cache
from pathlib import Path

from sphinx.application import Sphinx

# Each page asks for it, once it is finished.
STYLE = "_static/book.css"


def read(app: Sphinx, *, earlier: bool = False) -> dict[str, str]:
    """Give the HTML of each page, by its address within the site.

    Of the pages that this build has written, or of those that an earlier
    one has written and finished.
    """
    folder = Path(app.outdir)
    return {
        path.relative_to(folder).as_posix(): path.read_text("utf-8")
        for path, finished in _pages(folder).items()
        if finished == earlier
    }


@cache
def _pages(folder: Path) -> dict[Path, bool]:
    return {
        path: STYLE in path.read_text("utf-8")
        for path in sorted(folder.rglob("*.html"))
        # These are templates of the theme.
        if not path.is_relative_to(folder / "_static")
    }


def write(app: Sphinx, pages: dict[str, str]) -> None:
    """Write the pages back."""
    for page, text in pages.items():
        Path(app.outdir, page).write_text(text, "utf-8")
