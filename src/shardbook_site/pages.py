"""Go once over the finished HTML: STEPS has what is done, in its order."""

import re
from hashlib import sha256
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.util import logging

from shardbook.problems import PARTS

LOGGER = logging.getLogger(__name__)
Pages = dict[Path, str]  # the HTML of each page, by its file

# What the theme and MyST-NB write, and what it should be for everyone.
FIXES = {
    # No theme is called "auto": without scripts there would be no colors.
    r'(<html [^>]*?data-theme)="auto"': r'\1="light"',
    # The name of a button begins with the words on it.
    r'(<button[^>]* search-button-field[^>]*?) aria-label="[^"]*"': r"\1",
    r'<summary aria-label="Toggle hidden content">': "<summary>",
    # What has no words on it has a name.
    r'<summary>(?=<span class="toctree-toggle")': (
        '<summary aria-label="Pages within">'
    ),
    # All that is seen is part of a landmark.
    r'(<a class="navbar-brand.*?</a>)': (
        r'<nav aria-label="Start">\1</nav>'
    ),
    # An empty cell is the header of nothing.
    r'<th class="head"><p></p></th>': "<td></td>",
}


def replace(pages: Pages, pattern: re.Pattern[str], by: str) -> int:
    """Replace what is found in all pages, and count it."""
    count = 0
    for path, text in pages.items():
        pages[path], found = pattern.subn(by, text)
        count += found
    return count


def fix_accessibility(static: Path, pages: Pages) -> None:
    """Fix what not everyone can use."""
    for pattern, replacement in FIXES.items():
        if not replace(pages, re.compile(pattern, re.DOTALL), replacement):
            LOGGER.warning(
                "no page has %r, which FIXES replaces: adapt the pattern, "
                "or remove it if there is nothing left to fix",
                pattern,
            )


STYLESHEET = re.compile(
    r'<link\b(?=[^>]*rel="stylesheet")[^>]*'
    r'href="(?P<static>[^"]*?_static/)(?P<name>[^"?]+)[^>]*>\s*'
)
# The book is set in the fonts that the reader's system has, and icons.css
# draws the icons: the theme's fonts and the letters of its icon font, as
# they are or by their numbers, go.
FONT = re.compile(r"@font-face\s*\{[^}]*\}")
ICON = re.compile(r"[\ue000-\uf8ff]|\\[ef][0-9a-f]{3}\b", re.IGNORECASE)


def link_one_stylesheet(static: Path, pages: Pages) -> None:
    """Replace all style sheets by one, which loads no font."""
    sheets = dict.fromkeys(
        static / found["name"]
        for text in pages.values()
        for found in STYLESHEET.finditer(text)
    )
    if not sheets:
        LOGGER.warning("no page has a style sheet like %r", STYLESHEET)
        return
    style = ICON.sub("", FONT.sub("", "\n".join(map(read, sheets))))
    (static / "book.css").write_text(style, "utf-8")
    digest = sha256(style.encode()).hexdigest()[:8]
    for path, text in pages.items():
        first = STYLESHEET.search(text)
        if first:
            address = f"{first['static']}book.css?v={digest}"
            link = f'<link rel="stylesheet" href="{address}" />\n'
            rest = STYLESHEET.sub("", text[first.end() :])
            pages[path] = text[: first.start()] + link + rest


def read(path: Path) -> str:
    """Read a file of the site."""
    return path.read_text("utf-8")


# What has the color of the text around it, in prose and in code: half of
# all elements of a page.
PLAIN = re.compile(r'<span class="(?:n|p|pre|w)">([^<]*)</span>')


def unwrap_plain_text(static: Path, pages: Pages) -> None:
    """Leave out elements that look like the text around them."""
    if not replace(pages, PLAIN, r"\1"):
        LOGGER.warning("no page has text in elements like %r", PLAIN)


TITLE = (
    '<p aria-level="2" class="caption" role="heading">'
    '<span class="caption-text">Problems</span></p>'
)
PART = "|".join(map(re.escape, PARTS))
MENU = re.compile(
    r'<p [^>]*class="caption"[^>]*><span class="caption-text">'
    rf"(?P<part>{PART})</span></p>\s*"
    r'(?P<list><ul class="(?P<open>current )?nav bd-sidenav">.*?</ul>)',
    re.DOTALL,
)


def fold_parts(static: Path, pages: Pages) -> None:
    """Show the problems of a part in the menu once it is opened.

    The part of the page itself is open.
    """

    def folded(found: re.Match[str]) -> str:
        return (
            f'<details class="menu-part"{" open" if found["open"] else ""}>'
            f"<summary>{found['part']}</summary>{found['list']}</details>"
        )

    first = '<details class="menu-part"'
    for path, text in pages.items():
        menu = MENU.sub(folded, text)
        pages[path] = menu.replace(first, f"{TITLE}\n{first}", 1)


STEPS = (
    fix_accessibility,
    fold_parts,
    unwrap_plain_text,
    link_one_stylesheet,
)


def finish(app: Sphinx, exception: Exception | None) -> None:
    """Take all steps on all pages; each build writes them all."""
    if exception or app.builder.format != "html":
        return
    folder = Path(app.outdir)
    pages = {
        path: read(path)
        for path in sorted(folder.rglob("*.html"))
        # Names with an underscore are of Sphinx: templates and downloads.
        if not path.relative_to(folder).parts[0].startswith("_")
    }
    for step in STEPS:
        step(folder / "_static", pages)
    for path, text in pages.items():
        path.write_text(text, "utf-8")


def setup(app: Sphinx) -> None:
    """Finish last: the theme writes the colors of code at the very end."""
    app.connect("build-finished", finish, priority=900)
