"""What a reader takes away is what was executed, and it runs."""

import json
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import Page

from shardbook.grading import attempt_files
from shardbook.problems import NAMES

DOCS = Path(__file__).parents[2] / "docs"
# Where a text says that it runs alone, it must do so without us.
WITHOUT_US = "import sys; sys.modules['shardbook'] = None\n"


def run(
    code: str, folder: Path, where: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh interpreter, as a file in a folder."""
    path = folder / "taken.py"
    path.write_text(code, "utf-8")
    return subprocess.run(
        (sys.executable, "-W", "error::DeprecationWarning:__main__", path),
        cwd=where or folder,
        capture_output=True,
        text=True,
        timeout=300,
    )


def copies(page: Page, selector: str) -> list[str]:
    """Press the copy button of each block, and read the clipboard."""
    # What is closed is opened first, as a reader would.
    page.evaluate(
        "document.querySelectorAll('details').forEach(d => d.open = true)"
    )
    taken = []
    for block in page.locator(selector).all():
        page.evaluate("navigator.clipboard.writeText('nothing')")
        block.hover()
        block.locator("button.copybtn").click()
        taken.append(page.evaluate("navigator.clipboard.readText()"))
    return taken


def cells(html: Path, name: str) -> list[str]:
    """Read what was executed on a page."""
    notebook = json.loads(
        (html / "_sources" / name).with_suffix(".ipynb").read_text("utf-8")
    )
    return [
        "".join(cell["source"])
        for cell in notebook["cells"]
        if cell["cell_type"] == "code"
    ]


def test_each_button_copies_what_was_executed(
    page: Page, html: Path, executed: str, tmp_path: Path
) -> None:
    """The cells that are copied from a page run in a fresh interpreter."""
    page.goto(executed)
    taken = copies(page, "div.cell_input div.highlight")
    # What lies beside a page is there for its cells too.
    result = run("\n\n".join(taken), tmp_path, (DOCS / executed).parent)

    assert [code.rstrip() for code in taken] == cells(html, executed)
    assert result.returncode == 0, result.stderr


def test_every_block_has_a_button(page: Page, page_name: str) -> None:
    """A button copies a block, and not a prompt or an output."""
    page.goto(page_name)
    blocks = page.locator("div.highlight:not(.cell_output *)").count()
    taken = copies(page, "div.highlight:has(button.copybtn)")

    assert len(taken) == blocks
    assert page.locator(".cell_output .copybtn").count() == 0
    assert "nothing" not in taken
    assert not any(text.startswith(("$ ", ">>> ")) for text in taken)


@pytest.mark.parametrize("name", NAMES)
def test_a_solution_is_copied_and_downloaded(page: Page, name: str) -> None:
    """A solution is the tested file, as copied and as downloaded."""
    page.goto(f"problems/{name}.html")
    section = "section#solution details"
    (copied,) = copies(page, f"{section} div.highlight")
    with page.expect_download() as download:
        page.locator("section#solution a.download").click()
    downloaded = Path(download.value.path()).read_text("utf-8")

    assert download.value.suggested_filename == f"{name}.py"
    assert downloaded == attempt_files.solution(name)
    assert copied.rstrip() == downloaded.rstrip()


@pytest.mark.parametrize("name", NAMES)
def test_a_starter_is_copied_and_runs(
    page: Page, html: Path, name: str, tmp_path: Path
) -> None:
    """A starter runs without us, as copied and as the notebook has it."""
    page.goto(f"problems/{name}.html")
    *_, copied = copies(page, "section#your-attempt div.highlight")
    result = run(WITHOUT_US + copied, tmp_path)
    _, starter, check = cells(html, f"problems/{name}-starter.html")

    assert result.returncode == 0, result.stderr
    assert copied.rstrip() == attempt_files.starter(name).rstrip()
    assert starter.rstrip() == copied.rstrip()
    assert check == f"import shardbook\n\nshardbook.check({name})"


def test_the_menu_offers_what_there_is(page: Page) -> None:
    """Notebooks, Markdown, and to print; each is alive."""
    page.goto(f"problems/{NAMES[0]}.html")
    menu = page.locator(".dropdown-download-buttons")
    links = menu.locator("a")
    found = {
        link.inner_text().strip() or link.text_content().strip(): (
            page.request.get(link.evaluate("a => a.href")).status
        )
        for link in links.all()
    }

    assert found == {
        "Notebook, executed": 200,
        "Notebook, to start from": 200,
        "Markdown, with outputs": 200,
    }


def test_the_markdown_holds_cells_and_outputs(
    page: Page, html: Path, executed: str
) -> None:
    """The Markdown of a page has all its code, and what it printed."""
    twin = page.request.get(f"{executed.removesuffix('.html')}.md").text()

    assert "```text\njax " in twin
    for code in cells(html, executed):
        assert f"```python\n{code}\n```" in twin


def test_the_notebook_says_what_the_page_says(
    html: Path, executed: str
) -> None:
    """A notebook has Markdown of its own, and no directives."""
    path = (html / "_sources" / executed).with_suffix(".ipynb")
    notebook = nbformat.read(path, 4)
    nbformat.validate(notebook)
    texts = [c.source for c in notebook.cells if c.cell_type != "code"]
    words = "\n".join(texts)

    assert texts[0].startswith("# ")
    assert not re.search(r"^(:::|```\{)|\{[a-z:]+\}`", words, re.M)
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            printed = output.get("text") or output.data["text/plain"]
            assert f"```text\n{printed.rstrip()}\n```" not in words


def test_llms_txt_leads_to_all_pages(page: Page, pages: list[str]) -> None:
    """Each page but search and the like is listed, and alive."""
    text = page.request.get("llms.txt").text()
    links = [part.split(")")[0] for part in text.split("](")[1:]]

    for name in NAMES:
        assert f"problems/{name}.md" in links
    for link in links:
        assert page.request.get(link).status == 200, link
