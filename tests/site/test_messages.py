"""One rule finds messages: in Python, and in the script of the site."""

import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from messages import QUOTED

from shardbook import book
from shardbook_site.run_page import DOCS

TABLE = Path(__file__).parents[1] / "messages.toml"
CASES = tomllib.loads(TABLE.read_text("utf-8"))["case"]
SECTIONS = book.explanations()


def titles_of(pasted: str) -> list[str]:
    """Name the sections that Python finds."""
    return [section.title for section in book.sections_on(pasted)]


@pytest.mark.parametrize(
    "case", CASES, ids=[case["name"] for case in CASES]
)
def test_what_is_pasted_leads_to_its_section(case: dict[str, str]) -> None:
    """However a terminal, a logger or a mail has changed it."""
    assert [*titles_of(case["pasted"]), ""][0] == case["heading"]


def test_the_script_of_the_site_finds_the_same() -> None:
    """All that Python finds, in its order."""
    node = shutil.which("node")
    if not node:
        pytest.skip("the site's script is run by Node.js: there is none")
    texts = [*QUOTED, *(case["pasted"] for case in CASES)]
    messages = [section.messages for section in SECTIONS]
    script = (DOCS / "_static" / "messages.js").read_text("utf-8")
    script += f"""
        const found = {json.dumps(texts)}.map(
          (text) => explained(text, {json.dumps(messages)}),
        );
        console.log(JSON.stringify(found));
    """
    printed = subprocess.check_output([node, "-"], input=script, text=True)
    found = [
        [SECTIONS[place].title for place in places]
        for places in json.loads(printed)
    ]

    assert found == [titles_of(text) for text in texts]


def test_no_message_is_so_short_that_a_log_has_it_by_accident() -> None:
    """Spaces and digits don't count: only letters are compared."""
    for section in SECTIONS:
        for message in section.messages:
            assert len(re.sub("[^A-Za-z]", "", message)) > 12, message
