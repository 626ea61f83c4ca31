"""Pages of the book: their Markdown, and where they can be read."""

import contextlib
import re
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from shardbook.messages import found

HERE = Path(__file__).parent
CLONE = HERE.parents[1]
# In a wheel, the pages are in the package.
FOLDERS = (
    HERE / "pages",
    CLONE / "docs" / "guides",
    CLONE / "docs" / "problems",
)
# What a section of the guide to errors is called in a verdict.
GUIDE = "the guide Read an error: "
# Code in Markdown: a message that has backticks is between two of them.
CODE = re.compile(r"(?<!`)(`+)(?!`) ?(.+?) ?(?<!`)\1(?!`)")
FOLD = re.compile(
    r"^:::\{admonition\} (.*)\n(?::\w.*\n)*\n*((?s:.*?))\n:::$", re.M
)


def _page(name: str) -> str:
    paths = [folder / f"{name}.md" for folder in FOLDERS]
    return next(filter(Path.is_file, paths), paths[-1]).read_text("utf-8")


def about(name: str) -> dict[str, str]:
    """Return the title and the front matter of a problem's page."""
    _, front, text = _page(name).split("---\n", 2)
    facts = re.findall(r"^(\w+): (.*)$", front, re.M)
    return {"title": text.strip().partition("\n")[0][2:], **dict(facts)}


def headings(name: str) -> list[str]:
    """List the headings of a problem's page."""
    return re.findall(r"^#+ (.*)$", _page(name), re.M)


def hints(name: str) -> list[tuple[str, str]]:
    """Return the title and the text of each hint of a problem."""
    _, _, text = _page(name).partition("\n## Hints\n")
    return FOLD.findall(readable(text.partition("\n## ")[0]))


def statement(name: str) -> str:
    """Return a problem's page without hints, answers and solution."""
    _, _, text = _page(name).split("---\n", 2)
    for section, words in (
        ("Hints", f"`shardbook hint {name}` shows one more each time."),
        ("Solution", f"`shardbook solution {name}` shows it."),
    ):
        pattern = rf"^(## {section}\n).*?(?=^## |\Z)"
        text = re.sub(pattern, rf"\1\n{words}\n\n", text, flags=re.M | re.S)
    return FOLD.sub(r"**\1**\n\n\2", readable(text))


class Section(NamedTuple):
    """A section of the guide to errors, on the page of its kind.

    It has what never varies of each message as code: in its title, and in
    its lines that begin with "Also:", "Formerly:" or "Messages:".

    Attributes:
        page: The name of the page.
        group: The title of the sections around it, or ``""``.
        text: Its Markdown, from the words of its title on.
    """

    page: str
    group: str
    text: str

    @property
    def lines(self) -> list[str]:
        """Its title and the lines with other wordings, as Markdown."""
        pattern = r"\A.*|^(?:Also|Formerly|Messages): .*"
        return re.findall(pattern, self.text, re.M)

    @property
    def title(self) -> str:
        """Its title, as plain text."""
        return CODE.sub(r"\2", self.lines[0])

    @property
    def messages(self) -> list[str]:
        """What never varies of each message."""
        return [words for _, words in CODE.findall("\n".join(self.lines))]


def explanations() -> list[Section]:
    """List the sections that explain errors, in the order of the guide."""
    sections = []
    for name in re.findall(r"^errors/\w+$", _page("errors"), re.M):
        group = ""
        parts = re.split("^(##+) ", _page(name), flags=re.M)[1:]
        for level, text in zip(parts[::2], parts[1::2], strict=True):
            if level == "##":
                group = ""
            section = Section(f"guides/{name}", group, text)
            if section.messages:
                sections.append(section)
            else:
                group = section.title
    return sections


def sections_on(error: str) -> dict[Section, str]:
    """Find the guide's sections on what was pasted, the best one first.

    Each comes with the text before its message, for the traceback.
    """
    sections = explanations()
    places = found(error, [each.messages for each in sections])
    return {sections[place]: before for place, before in places.items()}


def explained(error: str) -> str:
    """Name the guide's section on an error for a verdict, or ``""``."""
    return next((GUIDE + each.title for each in sections_on(error)), "")


def section_id(title: str) -> str:
    """Return what docutils names a section in an address."""
    words = re.sub("[^a-z0-9]+", "-", title.lower())
    return words.lstrip("-0123456789").rstrip("-")


def readable(text: str) -> str:
    """Leave out of a page what only Sphinx understands."""
    for pattern, new in (
        (r"^(```)\{code-cell\} (\w+)\n(?::.*\n)*\n*", r"\1\2\n"),
        # Neither which choice is right, nor why.
        (
            r"^:::\{predict\} (.*)\n((?:- \[.*\n)+)(?s:.*?)^:::\n",
            r"**Predict:** \1\n\n\2",
        ),
        (r"^- \[[ x]\] ", "- "),
        (r"^```\{.*\n(?s:.*?)^```$\n", ""),
        (r"(?<!`)\{[\w:-]+\}`~?([^`]+?)(?: <[^`]*>)?`", r"`\1`"),
        (r"^:::\{container\} \w+\n((?s:.*?))\n:::$", r"\1"),
        # Its title is on the page that it leads to.
        (r"\[\]\((?:[^)]*[/#])?([\w-]+)(?:\.md)?\)", r"`\1`"),
    ):
        text = re.sub(pattern, new, text, flags=re.M)
    return text


def address(name: str, section: str = "") -> str:
    """Return where a page, or a section of it, is; ``""`` if nowhere.

    A section may be one that :func:`explained` gave.
    """
    page = f"problems/{name}.html"
    if section.startswith(GUIDE):
        section = section.removeprefix(GUIDE)
        pages = {each.title: each.page for each in explanations()}
        page = f"{pages.get(section, 'guides/errors')}.html"
    base = address_of(page)
    return base + f"#{section_id(section)}" * bool(base and section)


def address_of(page: str) -> str:
    """Return where a file of the site is; ``""`` if nowhere.

    That is the book that was built in this clone, else the site that the
    package names.
    """
    built = CLONE / "docs" / "_build" / "html" / page
    base = built.as_uri() if built.exists() else ""
    with contextlib.suppress(metadata.PackageNotFoundError):
        urls = metadata.metadata("shardbook").get_all("Project-URL") or ()
        for label, _, site in (url.partition(", ") for url in urls):
            if label == "Documentation" and not base:
                base = f"{site.rstrip('/')}/{page}"
    return base
