"""The code cells of the pages, for what needs them outside of Sphinx."""

import re
from pathlib import Path

# Without the options of a cell.
CELL = re.compile(
    r"^```\{code-cell\} python\n(?::[^\n]*\n)*(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


def executed_pages(docs: Path) -> list[Path]:
    """Name the pages that have code cells."""
    return [
        page
        for page in sorted(docs.rglob("*.md"))
        if "file_format: mystnb" in page.read_text("utf-8")
    ]
