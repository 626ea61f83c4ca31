"""What there is for a search to find."""

import json
from typing import Any

from building import GOOD, Build, cell

ELSEWHERE = """\
# Not here

Nothing of this.

## Tea, green tea

[A kettle](https://kettle.invalid/) boils water.
See [a page](../page.md).
"""
PAGES = {
    "page": GOOD
    + "\n## Section\n"
    + cell('def f():\n    """Shard a kettle."""\n    return 1')
    + "\nProse comes first.\n",
    "reference/not_here": ELSEWHERE,
}


def test_sections(build_here: Build) -> None:
    """A docstring has no quotes, prose is first, and links are kept."""
    warnings, output = build_here(PAGES)
    text = (output / "_static" / "sections.js").read_text("utf-8")
    _, _, text = text.rstrip(";\n").partition(" = ")
    found: dict[str, Any] = {
        each["title"]: each for each in json.loads(text)
    }
    topic = found["Tea, green tea"]

    assert warnings == ""
    assert found["Section"]["text"] == [
        "Prose comes first.",
        "def f():",
        "Shard a kettle.",
        "return 1",
    ]
    assert "Not here" not in found
    assert topic["names"] == ["Tea", "green tea"]
    assert "".join(words for words, _ in topic["elsewhere"]) == (
        "A kettle boils water.\nSee a page."
    )
    assert [each for each in topic["elsewhere"] if each[1]] == [
        ["A kettle", "https://kettle.invalid/"],
        ["a page", "../page.html"],
    ]
