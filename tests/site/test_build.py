"""The book does not build unless every page of it is true."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from books import FRONT, GOOD, ROOT, cell, run_docs, write_book

# A page, and what the build must say about it.
WRONG = {
    "raises": (
        GOOD + cell("1 / 0"),
        "docs/raises.md, code cell 2: ZeroDivisionError: division by zero",
    ),
    "asserts": (
        GOOD + cell("assert 1 == 2, 'it is off'"),
        "docs/asserts.md, code cell 2: AssertionError: it is off",
    ),
    "hangs": (
        GOOD + cell("import time\ntime.sleep(100)"),
        "docs/hangs.md, code cell 2: ran past the limit of 10 s",
    ),
    "dies": (
        GOOD + cell("import os\nos._exit(0)"),
        "docs/dies.md, code cell 2: ended its kernel",
    ),
    "leaves": (
        GOOD + cell("raise SystemExit(0)"),
        "docs/leaves.md, code cell 2: SystemExit: 0",
    ),
    "expects_an_error": (
        GOOD + cell(":tags: [raises-exception]\n1 / 0"),
        "docs/expects_an_error.md, code cell 2: ZeroDivisionError",
    ),
    "deprecated": (
        GOOD
        + cell("import warnings\nwarnings.warn('x', DeprecationWarning)"),
        "docs/deprecated.md, code cell 2: wrote a warning",
    ),
    "too_late": (
        GOOD.replace("print", "jax.devices()\nprint")
        + cell("jax.config.update('jax_num_cpu_devices', 8)"),
        "docs/too_late.md, code cell 2: RuntimeError: jax_num_cpu_devices",
    ),
    "no_cell": (FRONT, "docs/no_cell.md: has no code cell"),
    "no_front_matter": (
        "# Title\n",
        "docs/no_front_matter.md: no cell was executed",
    ),
    "switched_off": (
        GOOD.replace("execution_timeout: 10", "execution_mode: 'off'"),
        "docs/switched_off.md: no cell was executed",
    ),
    "no_stamp": (
        FRONT + cell("1"),
        'docs/no_stamp.md, code cell 1: must print "jax VERSION',
    ),
    "other_versions": (
        FRONT + cell("print('jax 0.0.0, flax 0.0.0, 8 devices')"),
        "The pages ran on different versions",
    ),
    "broken_link": (
        GOOD + "\n[there](nowhere.md)\n",
        "docs/broken_link.md:14: WARNING",
    ),
    "broken_anchor": (
        GOOD + "\n[there](#nowhere)\n",
        "docs/broken_anchor.md:14: WARNING",
    ),
    "broken_reference": (
        GOOD + "\n{func}`jax.no_such_function`\n",
        "docs/broken_reference.md:14: WARNING",
    ),
}


@pytest.fixture(scope="module")
def failed(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[int, str, Path]:
    """The status and the words of one build of all the wrong pages."""
    folder = tmp_path_factory.mktemp("wrong")
    write_book(folder, {name: page for name, (page, _) in WRONG.items()})
    result = run_docs(folder)
    return result.returncode, result.stdout, folder


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_page_is_named(
    failed: tuple[int, str, Path], name: str
) -> None:
    """The build says which page is wrong, in which cell, and how."""
    _, words, _ = failed

    assert WRONG[name][1] in words


def test_a_wrong_book_is_not_there(failed: tuple[int, str, Path]) -> None:
    """The build fails, and leaves nothing that looks like a book."""
    status, words, folder = failed

    assert status == 1
    assert "ERROR: docs/index.md" not in words
    assert not (folder / "docs" / "_build" / "html").exists()


@pytest.mark.parametrize(
    ("file", "code"),
    [
        ("conf.py", "warnings.warn('is old', DeprecationWarning)\n"),
        (
            "docs/_extensions/mends.py",
            "import warnings\n"
            "warnings.warn('is old', PendingDeprecationWarning)\n",
        ),
    ],
)
def test_what_the_build_uses_is_not_deprecated(
    tmp_path: Path, file: str, code: str
) -> None:
    """Neither in the settings, nor in an extension of ours."""
    write_book(tmp_path, {"page": GOOD})
    path = tmp_path / file
    path.write_text(path.read_text("utf-8") + code, "utf-8")
    result = run_docs(tmp_path)

    assert result.returncode == 1
    assert "DeprecationWarning: is old" in result.stdout


def test_code_that_broke_after_a_good_build(tmp_path: Path) -> None:
    """A page whose text is unchanged runs again, and the old book stays."""
    write_book(tmp_path, {"page": GOOD + cell("import helper")})
    helper = tmp_path / "docs" / "helper.py"
    helper.write_text("answer = 42\n")
    good = run_docs(tmp_path)
    book = tmp_path / "docs" / "_build" / "html"
    page = (book / "page.html").read_text("utf-8")
    helper.write_text("answer = 1 / 0\n")
    bad = run_docs(tmp_path)

    assert good.returncode == 0, good.stdout
    assert "2 pages, built in" in good.stdout
    assert "The book's 3 cells ran on 8 CPU devices" in good.stdout
    assert "The book's 3 cells ran on 8 CPU devices" in page
    assert 'href="_sources/page.ipynb"' in page
    assert (book / "_sources" / "page.ipynb").exists()
    assert bad.returncode == 1
    assert "docs/page.md, code cell 2: ZeroDivisionError" in bad.stdout
    assert (book / "page.html").read_text("utf-8") == page


def test_a_folder_that_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    """The build does not replace a folder that it did not make."""
    write_book(tmp_path, {})
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("precious")
    result = run_docs(tmp_path, "--out", "mine")

    assert result.returncode == 1
    assert "mine exists, and was not made by this command" in result.stdout
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "precious"


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    """An unknown option ends with a line on how to call it."""
    write_book(tmp_path, {})
    result = run_docs(tmp_path, "--sevre")

    assert result.returncode != 0
    assert "unrecognized arguments: --sevre" in result.stdout
    assert "usage: nox -s docs -- [-h] [--serve] [--out FOLDER]" in (
        result.stdout
    )


def test_only_links_to_other_hosts_may_break(tmp_path: Path) -> None:
    """Offline, "nox -s linkcheck" finds fault with no link of our own."""
    sphinx = (
        *(sys.executable, "-m", "sphinx", "-c", str(ROOT), "-j", "auto"),
        *("-b", "linkcheck", "-n", "-W", "--keep-going", "-d", "doctrees"),
        *("-D", "nb_execution_mode=off", str(ROOT / "docs"), "links"),
    )
    # A port at which no one listens.
    nowhere = {"https_proxy": "http://127.0.0.1:9", "no_proxy": ""}
    result = subprocess.run(
        sphinx,
        cwd=tmp_path,
        env={**os.environ, **nowhere},
        capture_output=True,
        text=True,
        check=False,
    )
    notes = (tmp_path / "links" / "output.json").read_text("utf-8")
    links = [json.loads(line) for line in notes.splitlines()]
    broken = [link["uri"] for link in links if link["status"] == "broken"]

    assert "WARNING" not in result.stdout + result.stderr
    assert len(broken) > 50
    assert [link for link in broken if "https://" not in link] == []
