"""Mend what the theme and MyST-NB write that not everyone can use."""

import re

import written
from sphinx.application import Sphinx

# What they write, and what it should be.
MENDS = {
    # No theme is called "auto": without scripts, no colour would be set.
    r'(<html [^>]*?data-theme)="auto"': r'\1="light"',
    # The name of a button begins with the words on it.
    r'(<button[^>]* search-button-field[^>]*?) aria-label="[^"]*"': r"\1",
    r'<summary aria-label="Toggle hidden content">': "<summary>",
    # What has no words on it has a name.
    r'<summary>(?=<span class="toctree-toggle")': (
        '<summary aria-label="Pages within">'
    ),
    # All that is seen is part of a landmark.
    r'(?<!<nav aria-label="Start">)(<a class="navbar-brand.*?</a>)': (
        r'<nav aria-label="Start">\1</nav>'
    ),
    # An empty cell is the header of nothing.
    r'<th class="head"><p></p></th>': "<td></td>",
}


def finish(app: Sphinx, exception: Exception | None) -> None:
    """Mend the pages that have been written."""
    if exception or app.builder.format != "html":
        return
    pages = written.read(app)
    for pattern, mended in MENDS.items():
        for page, text in pages.items():
            pages[page] = re.sub(pattern, mended, text, flags=re.DOTALL)
    written.write(app, pages)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("build-finished", finish)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
