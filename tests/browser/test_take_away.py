"""What a reader takes away is what was executed, and it runs."""

import ast
import json
import re
from importlib.util import find_spec
from pathlib import Path

import nbclient
import nbformat
import pytest
from nbclient.exceptions import CellExecutionError
from playwright.sync_api import Locator, Page

from shardbook.problems import NAMES
from shardgrade.reader import attempt_files

# What needs other compilers than those that jax has, and what it says.
COMPILES = {
    "guides/another_machine.ipynb": "needs libtpu",
    "guides/choose_layout.ipynb": "needs its plugin for CUDA and NVIDIA's "
    "assembler",
    "guides/eight_gpus.ipynb": "needs its plugin for CUDA and NVIDIA's "
    "assembler",
}
MISSING = ". To install what is missing: python3 -m pip"
BLOCK = "div.highlight:has(button.copybtn)"
# Click where a copy button is, on whatever lies there. It may copy because
# Playwright calls this as if it were a gesture of a reader's.
COPY = """async (button) => {
    button.scrollIntoView({ block: "center" });
    const { x, y, width, height } = button.getBoundingClientRect();
    await navigator.clipboard.writeText("nothing");
    document.elementFromPoint(x + width / 2, y + height / 2).dispatchEvent(
        new MouseEvent("click", { bubbles: true })
    );
    return navigator.clipboard.readText();
}"""


def copy(page: Page, block: Locator) -> str:
    """Press a copy button with the mouse, and read the clipboard."""
    page.evaluate("navigator.clipboard.writeText('nothing')")
    block.hover()
    block.locator("button.copybtn").click()
    return page.evaluate("navigator.clipboard.readText()").rstrip()


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


@pytest.mark.exhaustive("one script does it on all pages")
def test_every_button_copies_its_block(
    visit: Page, html: Path, page_name: str
) -> None:
    """A block without prompts; a cell as it was executed."""
    blocks = visit.locator("div.highlight:not(.cell_output *)").count()
    buttons = visit.locator("div.highlight button.copybtn").all()
    taken = [button.evaluate(COPY).rstrip() for button in buttons]
    executed = (html / "_sources" / page_name).with_suffix(".ipynb")

    assert len(taken) == blocks
    assert visit.locator(".cell_output .copybtn").count() == 0
    assert "nothing" not in taken
    assert not any(text.startswith(("$ ", ">>> ")) for text in taken)
    if executed.exists():
        inputs = iter(taken)
        missing = [c for c in cells(html, page_name) if c not in inputs]
        assert missing == []


def undocumented(code: str) -> str:
    """Write code in one way, without the docstrings of functions."""
    tree = ast.parse(code)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and ast.get_docstring(node):
            del node.body[0]
    return ast.unparse(tree)


@pytest.mark.exhaustive("one script does it on all pages")
def test_a_problem_is_taken_away(
    visit: Page, html: Path, problem: str
) -> None:
    """Starter and solution are the tested files, as text and as a file."""
    starter = copy(visit, visit.locator(f"#your-attempt {BLOCK}").last)
    solution = copy(
        visit, visit.locator(f"#solution details {BLOCK}").first
    )
    with visit.expect_download() as download:
        visit.locator("section#solution a.download").click()
    downloaded = Path(download.value.path()).read_text("utf-8")
    devices, code, check = cells(html, f"problems/{problem}-starter.html")

    assert download.value.suggested_filename == f"{problem}.py"
    assert downloaded == attempt_files.solution(problem)
    assert undocumented(solution) == undocumented(downloaded)
    assert solution.splitlines()[0] == downloaded.splitlines()[0]
    assert starter == code == attempt_files.starter(problem).rstrip()
    assert check == f"import shardgrade\n\nshardgrade.check({problem})"
    assert devices.endswith('"jax_num_cpu_devices", 8)')


def test_a_notebook_runs_where_it_was_downloaded(
    html: Path, tmp_path: Path, notebook: str
) -> None:
    """It runs from top to bottom in a folder without any other file.

    A starter is graded as not written, or as wrong if it is a step to
    repair. What needs the compilers of other
    machines says how to install them.
    """
    taken = nbformat.read(html / "_sources" / notebook, 4)
    resources = {"metadata": {"path": str(tmp_path)}}
    client = nbclient.NotebookClient(
        taken, timeout=600, kernel_name="python3", resources=resources
    )
    if notebook in COMPILES and not find_spec("libtpu"):
        missing = COMPILES[notebook] + MISSING
        with pytest.raises(CellExecutionError, match=missing):
            client.execute()
        return
    client.execute()
    outputs = [
        output for cell in taken.cells for output in cell.get("outputs", ())
    ]

    assert not any(each.get("name") == "stderr" for each in outputs)
    if notebook.endswith("-starter.ipynb"):
        repair = find_spec(f"shardbook.problems.starters.{notebook[9:-14]}")
        verdict = "  wrong (" if repair else "  not written: "
        assert verdict in outputs[-1].data["text/plain"]


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


def test_llms_txt_leads_to_all_pages(html: Path, pages: list[str]) -> None:
    """Each page but search and the like is listed, and there."""
    text = (html / "llms.txt").read_text("utf-8")
    links = {part.split(")")[0] for part in text.split("](")[1:]}

    assert links == {
        name.replace(".html", ".md")
        for name in {*pages} - {"404.html", "search.html"}
    }
    assert all((html / link).is_file() for link in links)
