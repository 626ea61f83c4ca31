"""Every task of this repository: ``nox -l`` lists them."""

import argparse
import os
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import nox
from nox.command import CommandFailed
from packaging.specifiers import SpecifierSet

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.sessions = ["docs", "tests", "lint"]

PROJECT = nox.project.load_toml("pyproject.toml")
BUILD = Path("docs", "_build")
# As many files at a time as there are cores; of the attempts, those at one
# problem. In the end it names the tests that took longest.
PYTEST = (
    *("python", "-m", "pytest", "-n", "auto", "--dist", "loadscope"),
    *("--durations", "12", "--durations-min", "15"),
)
# Where a number of devices may make a difference, beside the usual eight.
FEWER_DEVICES = (
    ("1", "tests/problems"),
    ("2", "tests/problems", "tests/grading/test_attempts.py"),
    ("4", "tests/problems"),
)
# Tests that jax's version can matter to, but for those marked "newest".
VERSIONED = ("tests/problems", "tests/grading", "tests/shardscope")
# One process more than there are cores, because some pages wait.
SPHINX = ("-c", ".", "-j", str((os.cpu_count() or 1) + 1), "-n")


def install(session: nox.Session, *groups: str) -> None:
    """Install dependency groups, and the package as it is in src/."""
    # pip would tell in sixty lines of another package.
    needed = PROJECT["project"]["requires-python"]
    ask = "import platform; print(platform.python_version())"
    found = session.run_install("python", "-c", ask, silent=True)
    if found and found.strip() not in SpecifierSet(needed):
        session.error(f"Python {needed} is needed; this is {found}")
    packages = nox.project.dependency_groups(PROJECT, *groups)
    session.install(*packages, "-e", ".")


@nox.session
def docs(session: nox.Session) -> None:
    """Build the book, which runs its cells; "-- --serve" to write."""
    parser = argparse.ArgumentParser(prog="nox -s docs --")
    parser.add_argument(
        "--serve",
        action="store_true",
        help="show the book in a browser and rebuild a page when saved",
    )
    parser.add_argument(
        "--out",
        default=str(BUILD / "html"),
        metavar="FOLDER",
        help="where to write the pages (default: %(default)s)",
    )
    parser.add_argument(
        "--fresh",
        action="store_true",
        help="run all pages, also where nothing has changed",
    )
    options = parser.parse_args(session.posargs)
    if options.serve:
        install(session, "serve")
        session.run(
            "sphinx-autobuild",
            *SPHINX,
            "-d",
            str(BUILD / "doctrees"),
            "--open-browser",
            "--watch",
            "src",
            "--watch",
            "conf.py",
            "--re-ignore",
            r"/(_build|__pycache__)/",
            "docs",
            options.out,
        )
        return
    install(session, "docs")
    kept = ("-D", f"execution_kept={BUILD / 'kept'}")
    build(session, Path(options.out), *(() if options.fresh else kept))


def build(session: nox.Session, target: Path, *options: str) -> None:
    """Write the book to a folder, if every cell in it holds."""
    if target.exists() and not (target / ".buildinfo").exists():
        session.error(f"{target} exists, and was not made by this command")
    # Beside the book, which stays until there is another one. Nothing is
    # taken over from an earlier draft: shardbook_site.kept knows better
    # than Sphinx which pages have to run again.
    draft = target.with_name(f".{target.name}-draft")
    if draft.exists():
        shutil.rmtree(draft)
    doctrees = str(draft / "doctrees")
    usual = (*SPHINX, "-W", "-d", doctrees, *options)
    sphinx = ("python", "-m", "sphinx", *usual)
    try:
        session.run(*sphinx, "-b", "html", "docs", str(draft / "html"))
    except CommandFailed:
        session.error(
            "There is no new book: the warnings above say why. What there "
            f"is of it, with reports on cells that failed: {draft}/html"
        )
    # From what was read just now: no cell runs again.
    markdown = (*sphinx, "-b", "markdown", "docs", str(draft / "html"))
    session.run(*markdown, silent=True)
    if target.exists():
        shutil.rmtree(target)
    (draft / "html").rename(target)
    shutil.rmtree(draft)
    session.log(f"Open {target / 'index.html'}")


@nox.session
def notebooks(session: nox.Session) -> None:
    """Commit the notebooks of a built book to the branch "notebooks"."""
    folder = BUILD / "html" / "_sources"
    if not folder.exists():
        session.error(f"There is no {folder}: run nox -s docs first")
    with TemporaryDirectory() as scratch:
        index = {"GIT_INDEX_FILE": f"{scratch}/index"}

        def git(*arguments: str) -> str:
            command = ("git", f"--work-tree={folder}", *arguments)
            said = session.run(
                *command, env=index, external=True, silent=True
            )
            return str(said).strip()

        git("add", "--force", ":(top,glob)**/*.ipynb")
        tree = git("write-tree")
        commit = git("commit-tree", tree, "-m", "Notebooks of the book")
        git("branch", "--force", "notebooks", commit)
    session.log("Next: git push --force REMOTE notebooks")


@nox.session
def tests(session: nox.Session) -> None:
    """Run the tests of each room; "-- ARGUMENTS" go to pytest."""
    install(session, "tests")
    session.run(*PYTEST, "-m", "not exhaustive", *session.posargs)


@nox.session
def exhaustive(session: nox.Session) -> None:
    """Run the tests that "tests" leaves out; "-- ARGUMENTS" as there."""
    install(session, "tests")
    session.run(*PYTEST, "-m", "exhaustive", *session.posargs)


@nox.session
def older(session: nox.Session) -> None:
    """Run the cells, and the tests that jax's version can matter to."""
    install(session, "tests")
    # Not session.create_tmp(), which would be the TMPDIR of cells: pytest
    # takes what is below a pyproject.toml for tests of that project.
    out = str(BUILD / "older")
    cells = ("-W", "-E", "-b", "dummy", "docs", out)
    session.run("python", "-m", "sphinx", *SPHINX, *cells)
    small = ("-m", "not newest and not exhaustive")
    session.run(*PYTEST, *small, *VERSIONED, *session.posargs)


@nox.session(python="3.13")
def newest(session: nox.Session) -> None:
    """Say what the jax and flax of today break, in about five minutes."""
    install(session, "tests")
    session.install("--upgrade", "jax", "flax", "optax", "orbax-checkpoint")
    session.run("python", "tests/newest.py", *session.posargs)


@nox.session
def coverage(session: nox.Session) -> None:
    """Run the tests and measure what they cover; twice the time."""
    install(session, "tests")
    session.run(*PYTEST, "--cov", *session.posargs)


@nox.session
def new(session: nox.Session) -> None:
    """Write the files of a new problem: "-- NAME"."""
    session.run("python", "tests/scaffold.py", *session.posargs)


@nox.session
def problem(session: nox.Session) -> None:
    """Check one problem, cheap things first: "-- NAME [--from STAGE]"."""
    files = sorted(Path("src/shardbook/problems").glob("[a-z]*.py"))
    names = [file.stem for file in files]
    pytest = ("python", "-m", "pytest", "-qx", "--no-showlocals", "--tb")
    shape = "tests/site/test_shape.py"
    attempts = "tests/grading/test_attempts.py"
    parser = argparse.ArgumentParser(prog="nox -s problem --")
    parser.add_argument("name", metavar="NAME")
    stages = ("files", "page", "tests", "attempts", "site")
    parser.add_argument("--from", dest="first", choices=stages)
    options = parser.parse_args(session.posargs)
    name = options.name
    if name not in names:
        session.error(
            f"Unknown problem {name!r}. Choose one of: {', '.join(names)}. "
            "To begin another: nox -s new -- NAME"
        )
    install(session, "tests")
    tests = Path(f"tests/problems/test_{name}.py")
    test = (*pytest, "short", str(tests), "--devices")
    grade = (*pytest, "line", "-k", name, attempts)
    # What needs no grading: headings that checks name, and the table.
    quick = (*pytest, "line", "-k", f"{name} and not verdict", attempts)
    commands = {
        "files": [
            (*pytest, "line", "-k", name, shape, "--maxfail=0"),
            quick,
        ],
        "page": [("python", "-m", "shardbook_site.run_page", name)],
        "tests": [(*test, n) for n in ("8", "1", "2") if tests.is_file()],
        "attempts": [(*grade, "--devices", count) for count in ("8", "2")],
        "site": [("python", "tests/site/one_page.py", name)],
    }
    for stage in stages[stages.index(options.first or "files") :]:
        session.log(f"Stage {stage}; to begin here: --from {stage}")
        for command in commands[stage]:
            session.run(*command)
    session.log(
        f"Nothing is missing. By hand: move {name} to its place in the "
        "map, read its page in a browser (nox -s docs -- --serve), run "
        f"nox -P 3.11 -s problem -- {name}, and then nox"
    )


@nox.session
def page(session: nox.Session) -> None:
    """Run the cells of one page in seconds, without the site: "-- NAME"."""
    install(session, "docs")
    session.run("python", "-m", "shardbook_site.run_page", *session.posargs)


@nox.session
def browser(session: nox.Session) -> None:
    """Try the book in Chromium; "-- --html FOLDER" takes a built one.

    With "-- -m ''", everything is tried on every page.
    """
    install(session, "browser")
    arguments = session.posargs
    if "--html" not in arguments:
        target = BUILD / "browser"
        build(session, target)
        arguments = ["--html", str(target), *arguments]
    # A group is a page, which is loaded once.
    by_page = ("--dist", "loadgroup")
    small = ("-m", "not exhaustive")
    session.run(*PYTEST, *by_page, *small, "tests/browser", *arguments)


@nox.session
def pictures(session: nox.Session) -> None:
    """Draw what README and front page show of a terminal."""
    install(session, "tests")
    session.run("python", "tests/pictures.py")


@nox.session
def bench(session: nox.Session) -> None:
    """Measure how long grading and building take; 20 minutes."""
    install(session, "docs")
    session.run("python", "benchmarks")


@nox.session(python="3.13")
def models(session: nox.Session) -> None:
    """Try the tools on released models, and note what they say."""
    install(session, "models")
    session.run("python", "tests/models")


@nox.session(python="3.13")
def elsewhere(session: nox.Session) -> None:
    """Note what only the compilers of TPUs and GPUs can tell."""
    install(session, "elsewhere")
    for guide in ("eight_gpus", "another_machine", "choose_layout"):
        page = ("tests/site/one_page.py", f"guides/{guide}")
        session.run("python", *page, env={"SHARDBOOK_NOTE": "1"})
    session.run("python", "-m", "shardbook_site.note_chips")
    tools = ("devices", "machine", "peak")
    tests = [f"tests/shardscope/test_{name}.py" for name in tools]
    # With all of XLA's passes: chips have others than CPUs.
    passes = {"XLA_FLAGS": ""}
    session.run("python", "-m", "pytest", "-q", *tests, env=passes)


@nox.session
def lock(session: nox.Session) -> None:
    """Note in locks/ the newest versions, and the lowest, with hashes."""
    session.install("uv>=0.8")
    options = (
        *("--generate-hashes", "--no-header", "--no-annotate", "--quiet"),
        "--upgrade",
    )
    usual = ("docs", "tests", "browser", "lint")
    for name, python, groups, *more in (
        ("3.11", "3.11", usual),
        ("3.13", "3.13", usual),
        ("lowest", "3.11", usual, "--resolution", "lowest-direct"),
        # What Read the Docs installs: the other versions are the same.
        ("elsewhere", "3.13", ("elsewhere",), "-c", "locks/3.13.txt"),
    ):
        session.run(
            *("uv", "pip", "compile", "pyproject.toml", *options, *more),
            *(part for group in groups for part in ("--group", group)),
            *("--python-version", python, "-o", f"locks/{name}.txt"),
        )


@nox.session
@nox.parametrize(
    ("python", "versions"),
    [
        ("3.11", "lowest"),
        ("3.11", "locked"),
        ("3.13", "locked"),
        ("3.13", "newest"),
    ],
    ids=["lowest 3.11", "locked 3.11", "locked 3.13", "newest 3.13"],
)
def matrix(session: nox.Session, versions: str) -> None:
    """Run book and tests on other versions, and on fewer devices."""
    lock = {"locked": session.python, "lowest": "lowest"}.get(versions)
    if lock:
        # The lock is complete; pip need not look for more.
        exactly = ("--no-deps", "--require-hashes")
        session.install(*exactly, "-r", f"locks/{lock}.txt")
        session.install("--no-deps", "-e", ".")
    else:
        install(session, "tests", "browser")
        # With the passes of XLA that tests do without, as for readers.
        session.env["XLA_FLAGS"] = ""
    old = "from shardbook_site.chips import stale; print(*stale())"
    if stale := session.run("python", "-c", old, silent=True).strip():
        session.error(f"Run nox -s elsewhere, because of {stale}")
    html = BUILD / f"matrix-{versions}-{session.python}"
    # With the passes that a build does without.
    build(session, html, "-D", "execution_xla_flags=")
    session.run(*PYTEST, "-q")
    # This needs no Chromium.
    taken = ("-k", "runs_where_it_was_downloaded", "--every-notebook")
    options = ("--dist", "load", "--html", str(html))
    session.run(*PYTEST, "-q", "tests/browser", *taken, *options)
    for arguments in FEWER_DEVICES:
        session.run(*PYTEST, "-q", "--devices", *arguments)


@nox.session
def release(session: nox.Session) -> None:
    """Build what can be uploaded, and try it in empty environments."""
    install(session, "tests")
    session.install("build>=1.3", "twine>=6.2")
    target = Path("dist")
    shutil.rmtree(target, ignore_errors=True)
    session.run("python", "-m", "build")
    built = [str(path) for path in sorted(target.iterdir())]
    session.run("twine", "check", "--strict", *built)
    tests = ("tests/package/test_wheel.py", "-k", "not notebook", "-m", "")
    for each in built:
        pytest = ("python", "-m", "pytest", "-q", *tests)
        session.run(*pytest, "--artifact", each)
    session.log(f"Next, by hand: CONTRIBUTING.md, Publish. {built}")


@nox.session
def linkcheck(session: nox.Session) -> None:
    """Ask other hosts whether the links to them still lead somewhere."""
    install(session, "docs")
    out = session.create_tmp()
    session.run(
        "python",
        "-m",
        "sphinx",
        *SPHINX,
        "-W",
        "-b",
        "linkcheck",
        "-D",
        "nb_execution_mode=off",
        "-d",
        f"{out}/doctrees",
        "docs",
        f"{out}/links",
    )


@nox.session
def audit(session: nox.Session) -> None:
    """Ask for known weaknesses of what the locks name, but the lowest."""
    session.install("pip-audit>=2.9")
    # "strict": what nobody could tell us about is no good news.
    pip_audit = ("pip-audit", "--strict", "--require-hashes")
    for lock in ("3.11", "3.13", "elsewhere"):
        session.run(*pip_audit, "--disable-pip", "-r", f"locks/{lock}.txt")


@nox.session
def lint(session: nox.Session) -> None:
    """Check style and types, count code; "-- --fix" fixes style."""
    install(session, "lint")
    fix = "--fix" in session.posargs
    session.run("ruff", "check", *(["--fix"] if fix else []))
    session.run("ruff", "format", *([] if fix else ["--check"]))
    session.run(
        "check-jsonschema",
        "--builtin-schema=vendor.readthedocs",
        ".readthedocs.yaml",
    )
    session.run("mypy")
    session.run("python", "tests/lines_of_code.py")
