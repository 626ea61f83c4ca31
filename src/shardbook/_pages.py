"""The pages of the problems: their Markdown, and where they can be read."""

import contextlib
import re
from importlib import metadata
from pathlib import Path

HERE = Path(__file__).parent
CLONE = HERE.parents[1]
# In a wheel, the pages are in the package.
FOLDERS = (HERE / "pages", CLONE / "docs" / "problems")
HINT = re.compile(
    r"^:::\{admonition\} (.*)\n(?::\w.*\n)*\n*((?s:.*?))\n:::$", re.M
)


def _page(name: str) -> str:
    folder = next(folder for folder in FOLDERS if folder.is_dir())
    return (folder / f"{name}.md").read_text("utf-8")


def about(name: str) -> dict[str, str]:
    """Return the title and the front matter of a problem's page."""
    _, front, text = _page(name).split("---\n", 2)
    facts = re.findall(r"^(\w+): (.*)$", front, re.M)
    return {"title": text.strip().partition("\n")[0][2:], **dict(facts)}


def hints(name: str) -> list[tuple[str, str]]:
    """Return the title and the text of each hint of a problem."""
    _, _, text = _page(name).partition("\n## Hints\n")
    return HINT.findall(_readable(text.partition("\n## ")[0]))


def statement(name: str) -> str:
    """Return a problem's page without hints, answers and solution."""
    _, _, text = _page(name).split("---\n", 2)
    for section, words in (
        ("Hints", f"`shardbook hint {name}` shows one more each time."),
        ("Solution", f"`shardbook solution {name}` shows it."),
    ):
        pattern = rf"^(## {section}\n).*?(?=^## |\Z)"
        text = re.sub(pattern, rf"\1\n{words}\n\n", text, flags=re.M | re.S)
    return _readable(text)


def _readable(text: str) -> str:
    """Leave out of a page what only Sphinx understands."""
    for pattern, new in (
        (r"^(```)\{code-cell\} (\w+)\n(?::.*\n)*\n*", r"\1\2\n"),
        (r"^:::\{predict\} (.*)\n(?s:.*?)^:::$", r"**Predict:** \1"),
        (r"^```\{.*\n(?s:.*?)^```$\n", ""),
        (r"\{[\w:-]+\}`~?", "`"),
    ):
        text = re.sub(pattern, new, text, flags=re.M)
    return text


def address(name: str, section: str = "") -> str:
    """Return where a page, or a section of it, is; ``""`` if nowhere.

    That is the book that was built in this clone, else the site that the
    package names.
    """
    built = CLONE / "docs" / "_build" / "html" / "problems" / f"{name}.html"
    base = built.as_uri() if built.exists() else ""
    with contextlib.suppress(metadata.PackageNotFoundError):
        urls = metadata.metadata("shardbook").get_all("Project-URL") or ()
        for label, _, site in (url.partition(", ") for url in urls):
            if label == "Documentation" and not base:
                base = f"{site.rstrip('/')}/problems/{name}.html"
    # As docutils names the section.
    words = re.sub("[^a-z0-9]+", "-", section.lower()).strip("-")
    return base + f"#{words.lstrip('-0123456789')}" * bool(base and section)
