"""What a reader takes away is what was executed, and it runs."""

import importlib
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import Page

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


@pytest.fixture
def executed(html: Path, pages: list[str]) -> list[str]:
    """Name the pages that have cells."""
    found = [
        name
        for name in pages
        if (html / "_sources" / name).with_suffix(".ipynb").exists()
    ]
    assert len(found) > len(NAMES)
    return found


def test_each_button_copies_what_was_executed(
    page: Page, html: Path, executed: list[str], tmp_path: Path
) -> None:
    """And the cells of a page run in order, in a fresh interpreter."""
    running = {}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for name in executed:
            page.goto(name)
            taken = copies(page, "div.cell_input div.highlight")
            folder = tmp_path / Path(name).stem
            folder.mkdir()
            # What lies beside a page is there for its cells too.
            where = (DOCS / name).parent
            code = "\n\n".join(taken)
            running[name] = pool.submit(run, code, folder, where)

            assert [c.rstrip() for c in taken] == cells(html, name), name
    for name, result in running.items():
        assert result.result().returncode == 0, (name, result.result())


def test_every_block_has_a_button(page: Page, pages: list[str]) -> None:
    """None of them copies nothing, a prompt or an output."""
    for name in pages:
        page.goto(name)
        blocks = page.locator("div.highlight:not(.cell_output *)").count()
        taken = copies(page, "div.highlight:has(button.copybtn)")
        outputs = page.locator(".cell_output .copybtn").count()

        assert (len(taken), outputs) == (blocks, 0), name
        assert "nothing" not in taken, name
        assert not any(t.startswith(("$ ", ">>> ")) for t in taken), name


@pytest.mark.parametrize("name", NAMES)
def test_a_solution_runs_alone(
    page: Page, html: Path, name: str, tmp_path: Path
) -> None:
    """As copied, and as downloaded; and they are the same."""
    page.goto(f"problems/{name}.html")
    section = "section#solution details"
    (copied,) = copies(page, f"{section} div.highlight")
    with page.expect_download() as download:
        page.locator("section#solution a.download").click()
    downloaded = Path(download.value.path()).read_text("utf-8")
    checks = importlib.import_module(f"shardbook.checks.{name}")
    seed, x, features = checks.EXAMPLE
    call = (
        f"\nimport jax.numpy as jnp\n"
        f"print({name}({seed}, jnp.ones({x.shape}), {features}).dtype)\n"
    )

    assert download.value.suggested_filename == f"{name}.py"
    assert copied.rstrip() == downloaded.rstrip()
    result = run(WITHOUT_US + copied + call, tmp_path)
    assert result.stdout == "float32\n", result.stderr


@pytest.mark.parametrize("name", NAMES)
def test_a_starter_is_complete(
    page: Page, name: str, tmp_path: Path
) -> None:
    """As copied, it runs without us, and says where to write."""
    page.goto(f"problems/{name}.html")
    *_, copied = copies(page, "section#your-attempt div.highlight")
    result = run(WITHOUT_US + copied, tmp_path)

    assert result.returncode == 0, result.stderr
    assert copied.rstrip().endswith("raise NotImplementedError")


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
    page: Page, html: Path, executed: list[str]
) -> None:
    """A page's twin has all its code, and what it printed."""
    for name in executed:
        twin = page.request.get(f"{name.removesuffix('.html')}.md").text()
        for cell in cells(html, name):
            assert f"```python\n{cell}\n```" in twin, (name, cell)
        assert "```text\njax " in twin


def test_the_notebook_says_what_the_page_says(
    html: Path, executed: list[str]
) -> None:
    """In a notebook's own Markdown, with nothing of the page's source."""
    for name in executed:
        path = (html / "_sources" / name).with_suffix(".ipynb")
        notebook = nbformat.read(path, 4)
        nbformat.validate(notebook)
        texts = [c.source for c in notebook.cells if c.cell_type != "code"]
        words = "\n".join(texts)

        assert texts[0].startswith("# "), name
        assert not re.search(r"^(:::|```\{)|\{[a-z:]+\}`", words, re.M), (
            name
        )
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
