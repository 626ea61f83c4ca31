"""Send a page one style sheet and one script, with what the book uses.

The theme is made for every kind of site. Of its rules, most are for what no
page here has, and of its scripts, the largest draws icons, which the book's
own style sheet does.
"""

import re
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from posixpath import dirname, join, normpath, relpath

import written
from sphinx.application import Sphinx

# Icons, and hints to load early what is loaded as early without.
UNUSED = re.compile(
    r"<script[^>]*/fontawesome\.js[^>]*></script>"
    r'|<link rel="preload"[^>]*>'
)
STYLE = re.compile(
    r'<link(?=[^>]*rel="stylesheet")[^>]*href="([^":?]+)[^>]*>'
)
SCRIPT = re.compile(r'<script[^>]*src="([^":?]+)[^>]*></script>')
TOKEN = re.compile(
    r"""/\*.*?\*/|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[{};]|[^{};"'/]+|/""",
    re.DOTALL,
)
NAME = re.compile(r"[.#]((?:[\w-]|\\.)+)")
# Letters of the theme's icon font, as they are or by their numbers.
ICON = re.compile(r"[\ue000-\uf8ff]|\\[ef][0-9a-f]{3}\b", re.IGNORECASE)
INNERMOST = re.compile(r"\([^()]*\)")


def has_use(head: str, words: set[str]) -> bool:
    """Tell whether a rule may apply, by the words of the book.

    Each class and id that a rule asks for must be a word somewhere in the
    pages and scripts. What stands in brackets, as in ``:not()``, may be
    what an element lacks.
    """
    if head.startswith("@"):
        # The book is set in the fonts that the reader's system has.
        return not head.startswith("@font-face")
    while "(" in head:
        shorter = INNERMOST.sub("", head)
        if shorter == head:
            break
        head = shorter
    return any(
        all(name.replace("\\", "") in words for name in NAME.findall(part))
        for part in head.split(",")
    )


def used_rules(tokens: Iterator[str], words: set[str]) -> str:
    """Give the rules up to the end of a block that have a use."""
    kept, head = [], ""
    for token in tokens:
        if token == "{":
            body = used_rules(tokens, words)
            if body.strip() and has_use(head.strip(), words):
                kept.append(f"{head}{{{body}}}")
            head = ""
        elif token == ";":
            kept.append(f"{head};")
            head = ""
        elif token == "}":
            break
        elif token.startswith("/*!"):
            # A licence.
            kept.append(token)
        elif not token.startswith("/*"):
            head += token
    return "".join(kept) + head


def read_style(path: Path) -> str:
    """Read a style sheet, with those that it imports."""

    def imported(found: re.Match[str]) -> str:
        return read_style(path.parent / found[1])

    text = path.read_text("utf-8")
    text = ICON.sub("", re.sub(r'@charset "[^"]*";', "", text))
    return re.sub(r'@import "([^"]+)";', imported, text)


def asked(page: str, text: str, pattern: re.Pattern[str]) -> list[str]:
    """Name the files that a page asks for, by their place in the site."""
    names = pattern.findall(text)
    return [normpath(join(dirname(page), name)) for name in names]


def relink(
    page: str,
    text: str,
    pattern: re.Pattern[str],
    files: set[str],
    tag: str,
) -> str:
    """Put one tag in the place of those for some files."""
    places = []

    def drop(found: re.Match[str]) -> str:
        if files.isdisjoint(asked(page, found[0], pattern)):
            return found[0]
        places.append(found.start())
        return ""

    text = pattern.sub(drop, text)
    return f"{text[: places[0]]}\n    {tag}{text[places[0] :]}"


def bundle(
    folder: Path,
    pages: dict[str, str],
    earlier: dict[str, str],
    pattern: re.Pattern[str],
    target: str,
    combine: Callable[[list[str], str], str],
    tag: str,
) -> None:
    """Put one file in the place of those that all the pages ask for.

    What only some pages ask for is left to them. Earlier pages ask for the
    file already, as it was.
    """
    files = [asked(page, text, pattern) for page, text in pages.items()]
    shared = [
        name for name in files[0] if all(name in names for names in files)
    ]
    path = folder / target
    before = path.read_text("utf-8") if path.exists() else ""
    content = combine(shared, before)
    path.write_text(content, "utf-8")
    digest = sha256(content.encode()).hexdigest()[:8]
    for book in (pages, earlier) if content != before else (pages,):
        for page, text in book.items():
            address = f"{relpath(target, dirname(page) or '.')}?v={digest}"
            book[page] = relink(
                page, text, pattern, {*shared, target}, tag.format(address)
            )


def defer(page: str) -> str:
    """Let no script hold up a page, and keep their order."""
    page = re.sub(
        r"<script(?![^>]*(?:defer|async|type=))(?=[^>]*src=)",
        "<script defer",
        page,
    )
    # A script of type "module" takes its turn among the deferred ones.
    return re.sub(
        r"<script>(?=DOCUMENTATION_OPTIONS\.)",
        '<script type="module">',
        page,
    )


def finish(app: Sphinx, exception: Exception | None) -> None:
    """Lighten the pages that have been written."""
    if exception or app.builder.format != "html":
        return
    folder = Path(app.outdir)
    pages = {
        page: defer(UNUSED.sub("", text))
        for page, text in written.read(app).items()
    }
    earlier = written.read(app, earlier=True)

    def combine_scripts(names: list[str], before: str = "") -> str:
        return "\n;\n".join(
            (folder / name).read_text("utf-8") for name in names
        )

    def combine_styles(names: list[str], before: str) -> str:
        scripts = {
            name
            for page, text in pages.items()
            for name in asked(page, text, SCRIPT)
        }
        # What the earlier pages have a use for.
        words = {name.replace("\\", "") for name in NAME.findall(before)}
        for text in (*pages.values(), combine_scripts(sorted(scripts))):
            words.update(re.findall(r"[\w-]+", text))
        style = "".join(read_style(folder / name) for name in names)
        return used_rules(iter(TOKEN.findall(style)), words)

    script = '<script defer src="{}"></script>'
    style = '<link rel="stylesheet" href="{}" />'
    book = (folder, pages, earlier)
    bundle(*book, SCRIPT, "_static/book.js", combine_scripts, script)
    bundle(*book, STYLE, written.STYLE, combine_styles, style)
    written.write(app, {**pages, **earlier})


def setup(app: Sphinx) -> dict[str, bool]:
    # After the theme, which writes the colours of code at the very end.
    app.connect("build-finished", finish, priority=800)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
