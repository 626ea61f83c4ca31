"""A book is not built unless every page of it ran, and is true."""

from pathlib import Path

import pytest
from building import FRONT, GOOD, Build, build, cell, execute_here
from nbformat import NotebookNode

from shardbook_site import execution
from shardbook_site.cells import executed_pages

pytestmark = pytest.mark.exhaustive("Sphinx builds books")

# A page, and what the build must say about it. What takes a kernel is in
# test_nox.py.
WRONG = {
    "no_cell": (FRONT, "no cell was executed"),
    "no_front_matter": ("# Title\n", "no cell was executed"),
    "switched_off": (
        GOOD.replace("execution_timeout: 20", "execution_mode: 'off'"),
        "no cell was executed",
    ),
    "no_stamp": (
        FRONT + cell("1"),
        'a code cell must print "jax VERSION, flax VERSION, N devices"',
    ),
    "broken_link": (GOOD + "\n[there](nowhere.md)\n", "nowhere.md"),
    "broken_anchor": (GOOD + "\n[there](#nowhere)\n", "nowhere"),
    "broken_reference": (
        GOOD + "\n{func}`jax.no_such_function`\n",
        "jax.no_such_function",
    ),
}
OTHER_VERSIONS = FRONT + cell("print('jax 0.0.0, flax 0.0.0, 8 devices')")


@pytest.fixture(scope="module")
def failed(build_here: Build) -> tuple[str, Path]:
    """The warnings and the output of one build of all the wrong pages."""
    pages = {name: page for name, (page, _) in WRONG.items()}
    return build_here({**pages, "other_versions": OTHER_VERSIONS})


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_page_is_named(failed: tuple[str, Path], name: str) -> None:
    """A warning says which page is wrong, and how."""
    found = [
        line
        for line in failed[0].splitlines()
        if f"docs/{name}.md" in line and "WARNING" in line
    ]

    assert any(WRONG[name][1] in line for line in found), found


def test_the_footer_of_a_failed_build(failed: tuple[str, Path]) -> None:
    """Every page says that the build failed, and not what it ran on."""
    said, output = failed
    page = (output / "reference" / "leaf.html").read_text("utf-8")

    assert "do not trust this page" in page
    assert "pages ran on different versions" in said
    assert "('0.0.0', '0.0.0', '8')" in said


def test_a_good_page_says_what_it_ran_on(build_here: Build) -> None:
    """The footer counts what ran and held, and names what it ran on."""
    code = (
        "from shardbook import raises\n"
        "assert True\n"
        "with raises(ValueError, 'not'):\n"
        "    int('not a number')\n"
        "    assert False\n"
        "for _ in ():\n"
        "    assert False"
    )
    warnings, output = build_here({"page": GOOD + cell(code)})
    page = (output / "page.html").read_text("utf-8")

    assert warnings == ""
    assert "The book's 4 cells ran, and 3 assertions in them held" in page
    assert "on 8 CPU devices with jax " in page


def test_a_busy_machine_has_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cell and a kernel may take ten minutes; no output is dropped."""
    given: list[dict[str, object]] = []

    def record(notebook: NotebookNode, **options: object) -> None:
        given.append(options)
        execute_here(notebook)

    monkeypatch.setattr(execution, "_execute", record)
    monkeypatch.setenv("JUPYTER_PATH", "")
    page = GOOD.replace("mystnb: {execution_timeout: 20}\n", "")
    warnings, _ = build(tmp_path, {"page": page})

    assert warnings == ""
    assert sorted(each["timeout"] for each in given) == [20, 600]
    for options in given:
        assert options["startup_timeout"] == 600
        assert options["raise_on_iopub_timeout"]


def test_pages_of_a_build_are_not_executed_pages(tmp_path: Path) -> None:
    """executed_pages leaves out what a build has copied to _build."""
    (tmp_path / "_build").mkdir()
    for name in ("page.md", "_build/page.md"):
        (tmp_path / name).write_text(GOOD, "utf-8")
    (tmp_path / "plain.md").write_text("# Title\n", "utf-8")

    assert executed_pages(tmp_path) == [tmp_path / "page.md"]
