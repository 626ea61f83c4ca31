"""The pages that a build has written, for what finishes them."""

from pathlib import Path

from sphinx.application import Sphinx


def read(app: Sphinx) -> dict[str, str]:
    """Give the HTML of each page, by its address within the site."""
    folder = Path(app.outdir)
    return {
        path.relative_to(folder).as_posix(): path.read_text("utf-8")
        for path in sorted(folder.rglob("*.html"))
        # These are templates of the theme.
        if not path.is_relative_to(folder / "_static")
    }


def write(app: Sphinx, pages: dict[str, str]) -> None:
    """Write the pages back."""
    for page, text in pages.items():
        Path(app.outdir, page).write_text(text, "utf-8")
