"""Every task of this repository: ``nox -l`` lists them."""

import argparse
import errno
import time
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import nox
from packaging.specifiers import SpecifierSet

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.sessions = ["docs", "tests", "lint"]

PROJECT = nox.project.load_toml("pyproject.toml")
BUILD = Path("docs", "_build")
# As many files at a time as there are cores.
PYTEST = ("python", "-m", "pytest", "-n", "auto", "--dist", "loadfile")
# Where a number of devices may make a difference.
ON_TWO = ("tests/attempts/test_attempts.py", "tests/problems")
SPHINX = ("-c", ".", "-j", "auto", "-n")


def install(session: nox.Session, group: str) -> None:
    """Install a dependency group, and the package as it is in src/."""
    # pip would tell in sixty lines of another package.
    needed = PROJECT["project"]["requires-python"]
    ask = "import platform; print(platform.python_version())"
    found = session.run_install("python", "-c", ask, silent=True)
    if found and found.strip() not in SpecifierSet(needed):
        session.error(f"Python {needed} is needed; this is {found}")
    groups = nox.project.dependency_groups(PROJECT, group)
    session.install(*groups, "-e", ".")


@nox.session
def docs(session: nox.Session) -> None:
    """Build the book and run every cell in it; "-- --serve" to write."""
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
    options = parser.parse_args(session.posargs)
    if options.serve:
        install(session, "serve")
        live = (
            # It adds a script to the pages, to load them again.
            *("-D", "content_security_policy=0"),
            *("-d", f"{BUILD / 'doctrees'}", "--open-browser"),
            *("--watch", "src", "--watch", "conf.py"),
            *("--re-ignore", r"/(_build|__pycache__)/"),
        )
        session.run(
            *("python", "docs/_extensions/kernels.py", "sphinx-autobuild"),
            *(*SPHINX, *live, "-b", "html", "docs", options.out),
        )
        return
    install(session, "docs")
    build(session, Path(options.out))


def build(session: nox.Session, target: Path) -> None:
    """Write the book to a folder, if every cell in it holds."""
    if target.exists() and not (target / ".buildinfo").exists():
        session.error(f"{target} exists, and was not made by this command")
    target.parent.mkdir(parents=True, exist_ok=True)
    # Nothing is taken over from another build: a page whose text is
    # unchanged must run again, for the code that it imports may differ.
    with TemporaryDirectory(
        dir=target.parent,
        prefix=f".{target.name}-",
        ignore_cleanup_errors=True,
    ) as folder:
        draft = Path(folder, "html")
        sphinx = (
            *("python", "-m", "sphinx", *SPHINX, "-W"),
            *("-d", f"{folder}/doctrees", "docs", str(draft)),
        )
        session.run(*sphinx, "-b", "html", "--keep-going")
        # From what was read just now: no cell runs again.
        session.run(*sphinx, "-b", "markdown", silent=True)
        publish(draft, target)
    session.log(f"Open {target / 'index.html'}")


def publish(draft: Path, target: Path) -> None:
    """Put a folder in the place of another, even if others do so too."""
    while draft.exists():
        with suppress(FileNotFoundError):
            target.rename(draft.with_name(f"old-{time.monotonic_ns()}"))
        try:
            draft.rename(target)
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise


@nox.session
def tests(session: nox.Session) -> None:
    """Run the tests; "-- ARGUMENTS" go to pytest."""
    install(session, "tests")
    session.run(*PYTEST, *session.posargs)


@nox.session
def browser(session: nox.Session) -> None:
    """Try the book in Chromium; "-- --html FOLDER" takes a built one."""
    install(session, "browser")
    arguments = session.posargs
    if "--html" not in arguments:
        target = Path(session.create_tmp(), "html")
        build(session, target)
        arguments = ["--html", str(target), *arguments]
    session.run(*PYTEST, "tests/browser", *arguments)


@nox.session
def bench(session: nox.Session) -> None:
    """Measure how long grading and building take; half an hour."""
    install(session, "docs")
    session.run("python", "benchmarks")


@nox.session
def lock(session: nox.Session) -> None:
    """Note in locks/ the newest versions, and the lowest, with hashes."""
    session.install("uv>=0.8")
    groups = ("docs", "tests", "browser", "lint")
    options = (
        *(part for group in groups for part in ("--group", group)),
        *("--generate-hashes", "--no-header", "--no-annotate", "--quiet"),
    )
    for name, python, *more in (
        ("3.11", "3.11", "--upgrade"),
        ("3.13", "3.13", "--upgrade"),
        ("lowest", "3.11", "--resolution", "lowest-direct"),
    ):
        session.run(
            *("uv", "pip", "compile", "pyproject.toml", *options, *more),
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
    """Run book and tests on other versions, and note what passed."""
    name = f"{versions} {session.python}"
    lock = {"locked": session.python, "lowest": "lowest"}.get(versions)
    if lock:
        session.install("--require-hashes", "-r", f"locks/{lock}.txt")
        session.install("--no-deps", "-e", ".")
    else:
        install(session, "tests")
    # What is kept of a run, for the next one to compare with.
    kept = Path(session.cache_dir, "matrix")
    kept.mkdir(parents=True, exist_ok=True)
    note = ("python", "tests/matrix.py", name, str(kept.resolve()))
    session.run(*note)
    html = Path(session.create_tmp(), "html")
    build(session, html)
    output = session.run(*PYTEST, "-q", silent=True)
    passed = output.strip().splitlines()[-1].split(" in ")[0]
    session.run(*PYTEST, "-q", "--devices", "2", *ON_TWO, silent=True)
    session.run(*note, str(html), passed)


@nox.session
def linkcheck(session: nox.Session) -> None:
    """Ask other hosts whether the links to them still lead somewhere."""
    install(session, "docs")
    out = session.create_tmp()
    session.run(
        *("python", "-m", "sphinx", *SPHINX, "-b", "linkcheck", "-W"),
        *("--keep-going", "-D", "nb_execution_mode=off"),
        *("-d", f"{out}/doctrees", "docs", f"{out}/links"),
    )


@nox.session
def audit(session: nox.Session) -> None:
    """Ask for known weaknesses of all that the site is built with."""
    session.install("pip-audit>=2.9")
    # "strict": what nobody could tell us about is no good news.
    pip_audit = ("pip-audit", "--strict", "--require-hashes")
    session.run(*pip_audit, "--disable-pip", "-r", "locks/3.13.txt")


@nox.session
def mutation(session: nox.Session) -> None:
    """Count the slips that something catches; half an hour."""
    install(session, "tests")
    session.run("python", "tests/mutation", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style and configuration; "-- --fix" mends what it can."""
    groups = nox.project.dependency_groups(PROJECT, "lint")
    session.install(*groups)
    fix = "--fix" in session.posargs
    session.run("ruff", "check", *(["--fix"] if fix else []))
    session.run("ruff", "format", *([] if fix else ["--check"]))
    session.run(
        "check-jsonschema",
        "--builtin-schema=vendor.readthedocs",
        ".readthedocs.yaml",
    )
