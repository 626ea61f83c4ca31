"""Find the code cells of pages: for benchmarks and tests."""

import re
from pathlib import Path

# The options of a cell are not part of its code.
CELL = re.compile(
    r"^```\{code-cell\} python\n(?::[^\n]*\n)*(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


def executed_pages(docs: Path) -> list[Path]:
    """Return the pages that have code cells, without those of a build."""
    return [
        page
        for page in sorted(docs.rglob("*.md"))
        if "_build" not in page.relative_to(docs).parts
        and "file_format: mystnb" in page.read_text("utf-8")
    ]


def pages_that_run(docs: Path) -> list[Path]:
    """Return those that need no more than the others to run."""
    return [
        page
        for page in executed_pages(docs)
        if "\nruns_with: " not in page.read_text("utf-8")
    ]
