"""What a reader takes away is what was executed, and it runs."""

import json
import re
from importlib.util import find_spec
from pathlib import Path

import nbclient
import nbformat
import pytest
from bs4 import BeautifulSoup
from nbclient.exceptions import CellExecutionError
from playwright.sync_api import Page

from shardbook.problems import NAMES
from shardbook.reader import attempt_files

# What needs other compilers than those that jax has, and what it says.
COMPILES = "guides/another_machine.ipynb"
MISSING = "needs libtpu. To install what is missing: python3 -m pip"
BLOCK = "div.highlight:has(button.copybtn)"


def copies(page: Page, within: str = "") -> list[str]:
    """Press the copy button of each block, and read the clipboard."""
    # What is closed is opened first, as a reader would.
    page.evaluate(
        "document.querySelectorAll('details').forEach(d => d.open = true)"
    )
    taken = []
    for block in page.locator(f"{within} {BLOCK}").all():
        page.evaluate("navigator.clipboard.writeText('nothing')")
        block.hover()
        block.locator("button.copybtn").click()
        text = page.evaluate("navigator.clipboard.readText()")
        taken.append(text.rstrip())
    return taken


def cells(html: Path, name: str) -> list[str]:
    """Read the code of a notebook, but for what installs the package."""
    notebook = json.loads(
        (html / "_sources" / name).with_suffix(".ipynb").read_text("utf-8")
    )
    install, *found = (
        "".join(cell["source"])
        for cell in notebook["cells"]
        if cell["cell_type"] == "code"
    )
    assert install.startswith("try:\n    import shardbook\n")
    return found


def test_every_button_copies_its_block(
    page: Page, html: Path, page_name: str
) -> None:
    """A block without prompts; a cell as it was executed."""
    page.goto(page_name)
    blocks = page.locator("div.highlight:not(.cell_output *)").count()
    taken = copies(page)
    executed = (html / "_sources" / page_name).with_suffix(".ipynb")

    assert len(taken) == blocks
    assert page.locator(".cell_output .copybtn").count() == 0
    assert "nothing" not in taken
    assert not any(text.startswith(("$ ", ">>> ")) for text in taken)
    if executed.exists():
        inputs = iter(taken)
        missing = [c for c in cells(html, page_name) if c not in inputs]
        assert missing == []


@pytest.mark.parametrize("name", NAMES)
def test_a_problem_is_taken_away(page: Page, html: Path, name: str) -> None:
    """Starter and solution are the tested files, as text and as a file."""
    page.goto(f"problems/{name}.html")
    *_, starter = copies(page, "section#your-attempt")
    solution, *_ = copies(page, "section#solution details")
    with page.expect_download() as download:
        page.locator("section#solution a.download").click()
    downloaded = Path(download.value.path()).read_text("utf-8")
    devices, code, check = cells(html, f"problems/{name}-starter.html")

    assert download.value.suggested_filename == f"{name}.py"
    assert downloaded == attempt_files.solution(name)
    assert solution == downloaded.rstrip()
    assert starter == code == attempt_files.starter(name).rstrip()
    assert check == f"import shardbook\n\nshardbook.check({name})"
    assert devices.endswith('"jax_num_cpu_devices", 8)')


def test_a_notebook_runs_where_it_was_downloaded(
    html: Path, tmp_path: Path, notebook: str
) -> None:
    """It runs from top to bottom in a folder without any other file.

    A starter is graded as not written. What needs the compilers of other
    machines says how to install them.
    """
    taken = nbformat.read(html / "_sources" / notebook, 4)
    resources = {"metadata": {"path": str(tmp_path)}}
    client = nbclient.NotebookClient(
        taken, timeout=600, kernel_name="python3", resources=resources
    )
    if notebook == COMPILES and not find_spec("libtpu"):
        with pytest.raises(CellExecutionError, match=MISSING):
            client.execute()
        return
    client.execute()
    outputs = [
        output for cell in taken.cells for output in cell.get("outputs", ())
    ]

    assert not any(each.get("name") == "stderr" for each in outputs)
    if notebook.endswith("-starter.ipynb"):
        assert "  not written: " in outputs[-1].data["text/plain"]


def test_the_menu_offers_what_there_is(page: Page) -> None:
    """Notebooks, Markdown, and to print; each is alive."""
    page.goto(f"problems/{NAMES[0]}.html")
    links = page.locator(".dropdown-download-buttons a").all()
    found = {
        link.text_content().strip(): (
            page.request.get(link.evaluate("a => a.href")).status
        )
        for link in links
    }

    assert found == {
        "Notebook, executed": 200,
        "Notebook, to start from": 200,
        "Markdown, with outputs": 200,
    }


def test_markdown_and_notebook_say_what_the_page_says(
    html: Path, executed: str
) -> None:
    """All code and outputs are there; no directives are."""
    twin = (html / executed).with_suffix(".md").read_text("utf-8")
    path = (html / "_sources" / executed).with_suffix(".ipynb")
    notebook = nbformat.read(path, 4)
    nbformat.validate(notebook)
    texts = [c.source for c in notebook.cells if c.cell_type != "code"]
    words = "\n".join(texts)
    prose = re.sub(r"(?ms)^(```+).*?^\1$|`[^`\n]*`", "code", twin)
    links = re.findall(r"\[[^]]*\]\(([^)]*)\)", prose)

    assert all(links)
    assert "```text\njax " in twin
    for code in cells(html, executed):
        assert f"```python\n{code}\n```" in twin
    assert texts[0].startswith("# ")
    assert not re.search(r"^(:::|```\{)|\{[a-z:]+\}`", words, re.M)
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            printed = output.get("text") or output.data["text/plain"]
            assert "<svg" not in output.get("data", {}).get("text/html", "")
            assert f"```text\n{printed.rstrip()}\n```" not in words


def test_llms_txt_leads_to_all_pages(
    html: Path, soups: dict[str, BeautifulSoup]
) -> None:
    """Each page but search and the like is listed, and there."""
    text = (html / "llms.txt").read_text("utf-8")
    links = {part.split(")")[0] for part in text.split("](")[1:]}

    assert links == {
        name.replace(".html", ".md")
        for name in soups.keys() - {"404.html", "search.html"}
    }
    assert all((html / link).is_file() for link in links)
