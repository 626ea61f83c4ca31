"""The package as people install it, outside of this checkout."""

import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from shardbook.problems import NAMES
from shardgrade.reader import attempt_files

ROOT = Path(__file__).parents[2]
BUILD = (sys.executable, "-m", "hatchling", "build")
NAME = NAMES[0]
PACKAGES = ("shardbook", "shardgrade", "shardscope")
WHERE = "import shardbook; print(shardbook.__file__)"
Run = Callable[..., str]
NOTEBOOK = """
import sys
import nbclient
from nbformat import v4

cells = [v4.new_code_cell(text) for text in sys.argv[1:]]
book = v4.new_notebook(cells=cells)
nbclient.NotebookClient(book, timeout=120).execute()
print(book.cells[-1].outputs)
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Unpack the source archive: a copy of the checkout."""
    folder = tmp_path_factory.mktemp("source")
    sdist = (*BUILD, "-t", "sdist", "-d", folder)
    subprocess.run(sdist, cwd=ROOT, check=True)
    (archive,) = folder.iterdir()
    with tarfile.open(archive) as files:
        files.extractall(folder, filter="data")
    return folder / archive.name.removesuffix(".tar.gz")


@pytest.fixture
def artifact(request: pytest.FixtureRequest, source: Path) -> Path:
    """Give what "nox -s release" has built, else a wheel."""
    if given := request.config.getoption("--artifact"):
        return Path(given).absolute()
    subprocess.run((*BUILD, "-t", "wheel"), cwd=source, check=True)
    (wheel,) = source.glob("dist/*.whl")
    return wheel


@pytest.fixture
def run(tmp_path: Path, request: pytest.FixtureRequest) -> Run:
    """Run programs of an environment that has all but the package.

    For an artifact of "nox -s release", the environment is empty.
    """
    empty_environment = request.config.getoption("--artifact")
    folder = tmp_path / "venv"
    venv.create(folder, with_pip=True)
    site = sysconfig.get_path("purelib", "venv", {"base": str(folder)})
    # The packages that the tests run with, after those installed here.
    # An editable install of shardbook among them is not seen: a .pth file
    # is read only in a folder that belongs to the environment itself.
    theirs = {sysconfig.get_path(name) for name in ("purelib", "platlib")}
    offline = {}
    if not empty_environment:
        Path(site, "theirs.pth").write_text("\n".join(theirs))
        offline = {"PIP_NO_INDEX": "1"}
    empty = tmp_path / "empty"
    empty.mkdir()
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "PIP"))
    }

    def call(program: str, *arguments: str, status: int = 0) -> str:
        result = subprocess.run(
            (folder / "bin" / program, *arguments),
            cwd=empty,
            env={**environment, "COLUMNS": "120", **offline},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=600,
        )

        assert result.returncode == status, result.stdout
        return result.stdout

    return call


@pytest.mark.exhaustive("it makes an environment")
def test_a_wheel(artifact: Path) -> None:
    """A wheel has the package and the pages alone.

    All links of its description are full, or there are none.
    """
    if artifact.suffix != ".whl":
        pytest.skip("it is an archive of the sources")
    wheel = zipfile.ZipFile(artifact)
    held = {*wheel.namelist()}
    about = {name for name in held if ".dist-info/" in name}
    package = {
        str(path.relative_to(ROOT / "src"))
        for name in PACKAGES
        for path in ROOT.glob(f"src/{name}/**/*.py")
    } | {f"{name}/py.typed" for name in PACKAGES}
    package |= {"shardgrade/grading/mistakes.toml"}

    pages = ROOT.glob("docs/guides/errors/*.md")
    kinds = [f"errors/{path.stem}" for path in pages]

    assert held - about == package | {
        f"shardbook/pages/{name}.md" for name in (*NAMES, "errors", *kinds)
    }
    assert any(name.endswith("/licenses/LICENSE") for name in about)
    (metadata,) = (each for each in about if each.endswith("/METADATA"))
    text = wheel.read(metadata).decode()
    assert "## Attempt a problem" in text
    assert not re.search(r"\]\((?!https://)", text)


@pytest.mark.exhaustive("it makes an environment")
def test_an_installation(
    artifact: Path,
    run: Run,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    """What was installed grades, reports, and has its types."""
    if request.config.getoption("--artifact"):
        run("pip", "install", str(artifact), "pytest", "mypy")
    else:
        run("pip", "install", "--no-deps", str(artifact))
    assert run("python", "-c", WHERE).startswith(str(tmp_path / "venv"))
    assert NAME in run("shardbook", "list")
    run("shardbook", "start", NAME)
    assert "not written" in run("shardbook", "check", NAME, status=1)
    attempt = tmp_path / "empty" / "attempts" / f"{NAME}.py"
    attempt.write_text(attempt_files.solution(NAME))
    assert "right" in run("python", "-m", "shardgrade", "check", NAME)

    report = "import shardscope; print(shardscope.program(abs, 1))"
    assert "collectives" in run("python", "-c", report)

    # pytest finds the fixture, and can leave it out.
    test = tmp_path / "empty" / "test_abs.py"
    test.write_text("def test_abs(shardscope): shardscope(abs, 1)\n")
    pytest_of = ("python", "-m", "pytest", "-q", "--shardscope-update")
    assert "wrote __shardscope__/test_abs/test_abs.json" in run(*pytest_of)
    refused = run(*pytest_of, "-p", "no:shardscope", status=4)
    assert "unrecognized arguments: --shardscope-update" in refused

    # Where nothing of the checkout is in sight.
    use = tmp_path / "empty" / "use.py"
    use.write_text(Path(__file__).with_name("typed_use.py").read_text())
    run("python", "-m", "mypy", "--strict", str(use))


@pytest.mark.exhaustive("it makes an environment")
def test_in_a_notebook(source: Path, run: Run, tmp_path: Path) -> None:
    """A notebook installs the repository in a cell, and grades."""
    shown = run(
        "python",
        "-c",
        NOTEBOOK,
        f"%pip install --no-deps --no-build-isolation {source}",
        attempt_files.solution(NAME),
        f"{WHERE}\nimport shardgrade\nshardgrade.check({NAME})",
    )

    assert str(tmp_path / "venv") in shown
    assert ">  right</span>" in shown
