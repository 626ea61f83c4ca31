"""The book as a browser sees it: served compressed, opened in Chromium."""

import functools
import gzip
import http.server
import mimetypes
import shutil
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from bs4 import BeautifulSoup
from playwright.sync_api import (
    Browser,
    BrowserContext,
    Page,
    sync_playwright,
)
from sizes import include
from tour import DESKTOP, Tour

from shardbook.problems import NAMES

# Where a Chromium may be; Debian's is the first.
CHROMIUMS = ("chromium", "chromium-browser", "google-chrome", "chrome")
# One of each kind: what is the same on all pages is tried on these.
SOME = ("index.html", "costs.html", "problems/split_merge_round_trip.html")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Take the folder with the book, and how much of it to run."""
    parser.addoption("--html", required=True, help="the built book")
    parser.addoption(
        "--every-notebook",
        action="store_true",
        help="run all notebooks, which takes minutes, not two of them",
    )


@pytest.hookimpl(tryfirst=True)  # Before xdist reads the groups.
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let one worker do all for which every page has to be read.

    Of what is exhaustive, choose some pages.
    """
    for item in items:
        if "soups" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("soups"))
        if isinstance(item, pytest.Function) and hasattr(item, "callspec"):
            page = item.callspec.params.get("page_name")
            if page in SOME:
                include(item)


def pages_in(html: Path) -> list[str]:
    """Name all pages of the book."""
    paths = (path.relative_to(html) for path in html.rglob("*.html"))
    return sorted(str(p) for p in paths if p.parts[0][0] != "_")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test for each page or notebook, or for a page that has one."""
    html = Path(metafunc.config.getoption("html"))
    names = pages_in(html)
    executed = [
        name
        for name in names
        if (html / "_sources" / name).with_suffix(".ipynb").exists()
    ]
    sources = html / "_sources"
    notebooks = sorted(
        path.relative_to(sources).as_posix()
        for path in sources.rglob("*.ipynb")
    )
    if not metafunc.config.getoption("--every-notebook"):
        notebooks = [name for name in notebooks if NAMES[0] in name]
    for kind, found in (("executed", executed), ("notebook", notebooks)):
        if kind in metafunc.fixturenames:
            metafunc.parametrize(kind, found)
    if "page_name" in metafunc.fixturenames:
        problems = {f"problems/{name}.html": name for name in NAMES}
        if "problem" in metafunc.fixturenames:
            kinds, found = "page_name, problem", [*problems.items()]
        else:
            kinds, found = "page_name", [(name,) for name in names]
        # A worker asks all that is asked of a page before it goes on, so
        # that each page is loaded once.
        group = pytest.mark.xdist_group
        each = [pytest.param(*it, marks=group(it[0])) for it in found]
        metafunc.parametrize(kinds, each, scope="session")


@pytest.fixture(scope="session")
def html(pytestconfig: pytest.Config) -> Path:
    """Return the folder with the book."""
    folder = Path(pytestconfig.getoption("html")).resolve()
    assert (folder / "index.html").exists(), f"there is no book in {folder}"
    return folder


@pytest.fixture(scope="session")
def pages(html: Path) -> list[str]:
    """Name all pages of the book."""
    return pages_in(html)


@pytest.fixture(scope="session")
def soups(html: Path, pages: list[str]) -> dict[str, BeautifulSoup]:
    """Read every page."""
    return {
        name: BeautifulSoup((html / name).read_text("utf-8"), "html.parser")
        for name in pages
    }


@functools.cache
def compressed(file: Path) -> bytes:
    """Read a file of the book, which stays as it is."""
    return gzip.compress(file.read_bytes())


class Server(http.server.BaseHTTPRequestHandler):
    """Serves a folder: compressed, with a 404 page."""

    folder: Path

    def do_GET(self) -> None:
        """Answer with a file."""
        path = unquote(urlsplit(self.path).path).lstrip("/")
        file = self.folder / path
        file = file / "index.html" if file.is_dir() else file
        status = 200 if file.is_file() else 404
        if status == 404:
            file = self.folder / "404.html"
        body = compressed(file)
        kind = mimetypes.guess_type(file.name)[0] or "text/plain"
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        # A browser that goes on to another page hangs up.
        with suppress(BrokenPipeError, ConnectionResetError):
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture(scope="session")
def site(html: Path) -> Iterator[str]:
    """Serve the book; give its address, which ends in a slash."""
    handler = type("Handler", (Server,), {"folder": html})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Start the Chromium that the machine has."""
    found = [path for name in CHROMIUMS if (path := shutil.which(name))]
    if not found:
        pytest.exit(
            "There is no Chromium on this machine. Install one: on Debian, "
            "apt-get install chromium",
            returncode=2,
        )
    with sync_playwright() as playwright:
        # Its sandbox needs what a container does not give to root.
        browser = playwright.chromium.launch(
            executable_path=found[0], args=["--no-sandbox"]
        )
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def context(browser: Browser, site: str) -> Iterator[BrowserContext]:
    """Return the one of all tests: another costs as much as three pages."""
    context = browser.new_context(
        base_url=site, permissions=["clipboard-read", "clipboard-write"]
    )
    yield context
    context.close()


@pytest.fixture
def quiet(context: BrowserContext, site: str) -> Iterator[None]:
    """Require that all windows are quiet in a test.

    No console error, and no request to another host.
    """
    said: list[str] = []
    asked: list[str] = []
    listeners = {
        "request": lambda request: asked.append(request.url),
        "weberror": lambda event: said.append(str(event.error)),
        "console": lambda message: said.append(
            f"{message.type}: {message.text}"
        ),
    }
    for event, listener in listeners.items():
        context.on(event, listener)
    yield
    # What was said before this answer has come by now.
    context.cookies()
    for event, listener in listeners.items():
        context.remove_listener(event, listener)
    here = (site, "data:", "blob:")
    assert [line for line in said if not line.startswith("log")] == []
    assert [url for url in asked if not url.startswith(here)] == []


@pytest.fixture(scope="session")
def window(context: BrowserContext) -> Page:
    """Open the window that tests take turns in."""
    return context.new_page()


@pytest.fixture
def page(window: Page, quiet: None) -> Iterator[Page]:
    """Return a window of a desktop, with nothing in it or remembered."""
    window.set_viewport_size(DESKTOP)
    yield window
    window.unroute_all()
    window.evaluate("localStorage.clear(); sessionStorage.clear()")
    # Or the next address, if it differs in its end alone, loads nothing.
    window.goto("about:blank")
    window.emulate_media(
        color_scheme="null", media="null", reduced_motion="null"
    )


@pytest.fixture(scope="session")
def tour(context: BrowserContext) -> Tour:
    """Open the window that goes from page to page."""
    return Tour(context.new_page())


@pytest.fixture
def visit(tour: Tour, page_name: str, quiet: None) -> Page:
    """Return a window with a page, loaded once for all tests of it.

    All that opens is open, and each question has an answer.
    """
    tour.visit(page_name)
    return tour.page


@pytest.fixture
def scriptless(browser: Browser, site: str) -> Iterator[Page]:
    """Return a window that runs no scripts."""
    context = browser.new_context(base_url=site, java_script_enabled=False)
    yield context.new_page()
    context.close()
