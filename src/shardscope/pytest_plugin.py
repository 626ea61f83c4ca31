"""Compare what programs do with files beside the tests, under pytest.

pytest loads this in every run, so what needs jax is imported in a test.
"""

import hashlib
import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, overload

import pytest

if TYPE_CHECKING:
    from shardscope.layouts.layout import TreeLayout
    from shardscope.programs.report import Program

FOLDER = "__shardscope__"
# What a file's name may have, and how long it may be without its number.
_OTHER = re.compile(r"[^\w.,=\[\]-]")
_LONGEST = 120
# The names under which the report of a test has its files.
_USED, _WRITTEN = "shardscope", "shardscope written"


def _prefix(item: pytest.Item) -> Path:
    """Give the path of a test's files, without number and suffix."""
    test = ".".join(item.nodeid.split("::")[1:])
    name = _OTHER.sub("-", test)[:_LONGEST]
    if name != test:
        # Two tests may have the same name by now.
        name += f"-{hashlib.sha256(test.encode()).hexdigest()[:8]}"
    return item.path.parent / FOLDER / item.path.stem / name


class Golden:
    """The fixture ``shardscope``: compare with the files of a test."""

    def __init__(self, item: pytest.Item) -> None:
        self._item = item
        self._calls = 0

    def __repr__(self) -> str:
        return "<fixture shardscope>"

    @overload
    def __call__(
        self,
        function: "TreeLayout",
        *,
        name: str = "",
    ) -> "TreeLayout": ...

    @overload
    def __call__(
        self,
        function: "Program | Callable[..., Any]",
        *args: Any,
        name: str = "",
        tolerance: float = 0.02,
        collectives: Mapping[str, int] | None = None,
        sent: Mapping[str | tuple[str, ...], int | str] | None = None,
        memory: int | str | None = None,
        transfers: int | str | None = None,
    ) -> "Program": ...

    def __call__(
        self,
        function: Any,
        *args: Any,
        name: str = "",
        tolerance: float = 0.02,
        **budgets: Any,
    ) -> Any:
        """Compile a call, and compare what it does with a file.

        Args:
            function: What :func:`shardscope.program` takes. Bind keyword
                arguments by :func:`functools.partial`. Or else the
                :class:`shardscope.Program` of a call, or a
                :class:`shardscope.TreeLayout`, which is compared likewise.
            *args: Arguments of the call, which may be abstract.
            name: Part of the name of the file. Without it, the second call
                in a test has the number 2, and so on.
            tolerance: By how much bytes may differ, as in
                :meth:`shardscope.Program.match`.
            **budgets: Budgets, as in :meth:`shardscope.Program.within`.

        Returns:
            The program, or the layout.
        """
        __tracebackhide__ = True
        from shardscope.compare.difference import require_part
        from shardscope.layouts.layout import TreeLayout
        from shardscope.programs.program import program
        from shardscope.programs.report import Program

        require_part(tolerance)
        path = self._path(name)
        if isinstance(function, Program | TreeLayout) and not args:
            found: Any = function
        else:
            found = program(function, *args)
        if budgets:
            try:
                found.within(**budgets)
            except AssertionError as error:
                raise pytest.fail.Exception(str(error)) from None
        with TemporaryDirectory() as folder:
            new = Path(folder, path.name)
            found.save(new)
            if self._item.config.getoption("shardscope_update"):
                self._write(path, new)
            elif not path.exists():
                pytest.fail(
                    f"There is no {_shown(path)} to compare with. If this "
                    "is as it should be, write the file and commit it: "
                    f"{self._command()}\n\n{found!r}"
                )
            else:
                self._compare(path, new, tolerance)
        return found

    def _path(self, name: str) -> Path:
        """Give the file of a call."""
        __tracebackhide__ = True
        self._calls += 1
        if name and _OTHER.search(name):
            pytest.fail(
                f"name={name!r} becomes part of a file's name: use letters "
                "and digits, and any of _.,=[]-"
            )
        part = name or (str(self._calls) if self._calls > 1 else "")
        prefix = _prefix(self._item)
        path = prefix.with_name(
            f"{prefix.name}{'.' * bool(part)}{part}.json"
        )
        used = (_USED, str(path))
        if used in self._item.user_properties:
            pytest.fail(
                f"Two calls of this test have name={name!r}: each needs a "
                "file of its own"
            )
        # Reports come from other processes, with pytest-xdist for one.
        self._item.user_properties.append(used)
        return path

    def _write(self, path: Path, new: Path) -> None:
        __tracebackhide__ = True
        text = new.read_bytes()
        try:
            if path.exists() and path.read_bytes() == text:
                return
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text)
        except OSError as error:
            raise pytest.fail.Exception(
                f"Can't write {_shown(path)} ({error.strerror}). Update "
                "where the checkout can be written, and commit the file"
            ) from None
        self._item.user_properties.append((_WRITTEN, str(path)))

    def _compare(self, path: Path, new: Path, tolerance: float) -> None:
        __tracebackhide__ = True
        from shardscope.compare.diff import difference_of_files

        again = f"write the file again and commit it: {self._command()}"
        try:
            difference = difference_of_files(path, new, tolerance)
        except ValueError as error:
            raise pytest.fail.Exception(
                f"{error}. To repair it, {again}"
            ) from None
        if not difference:
            return
        first, *_ = difference.changes
        if first.part == "machine":
            pytest.fail(
                f"{_shown(path)} is of another machine: {first}. Compile "
                "for the same chip and mesh wherever the test runs, such "
                "as eight CPU devices that conftest.py sets up, or skip "
                f"the test elsewhere. If the mesh is meant to change, "
                f"{again}"
            )
        pytest.fail(
            f"What the step does is not what {_shown(path)} says:\n"
            f"{difference!r}\nIf this is intended, {again}"
        )

    def _command(self) -> str:
        # The node's own name begins at pytest's root directory.
        test = "::".join(
            [_shown(self._item.path), *self._item.nodeid.split("::")[1:]]
        )
        return f"pytest --shardscope-update {shlex.quote(test)}"


def _shown(path: Path) -> str:
    """Write a path as one would type it here."""
    return os.path.relpath(path)


@pytest.fixture
def shardscope(request: pytest.FixtureRequest) -> Golden:
    """Compile a call, and compare what it does with a committed file.

    ``shardscope(step, *arguments)`` compiles the call without running it.
    Its collectives, memory, arguments and transfers have to be those of a
    file in ``__shardscope__``, which ``--shardscope-update`` writes.
    """
    return Golden(request.node)


# --- Files that no test uses ---


_WORKER = "shardscope_tests"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that writes files."""
    parser.getgroup("shardscope").addoption(
        "--shardscope-update",
        action="store_true",
        help="write what programs do to the files of the fixture "
        '"shardscope", instead of comparing',
    )


class _Reports:
    """Gathers what the run says of tests and files."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        # The tests that were collected, and where their files are; those
        # that ran to their end; the files that they used, and wrote.
        self._tests: dict[str, str] = {}
        self._passed, self._used = set[str](), set[str]()
        self._written = set[str]()

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        """Note where the files of a test would be."""
        self._tests[item.nodeid] = str(_prefix(item))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note which files a test used."""
        if report.when != "call":
            return
        if report.passed:
            self._passed.add(report.nodeid)
        for name, value in report.user_properties:
            if name == _USED:
                self._used.add(str(value))
            elif name == _WRITTEN:
                self._written.add(str(value))

    def pytest_sessionfinish(self) -> None:
        """Send the tests that a worker of pytest-xdist has collected."""
        output = getattr(self._config, "workeroutput", None)
        if output is not None:
            output[_WORKER] = self._tests

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Receive them; from a worker that crashed there are none."""
        output = getattr(node, "workeroutput", {})
        self._tests |= output.get(_WORKER, {})

    def _unused(self) -> Iterator[Path]:
        """Give files whose tests are gone, or ran without them.

        Files of tests that were collected, but were not selected, were
        skipped or failed, may be needed another time.
        """
        needed = tuple(
            f"{prefix}."
            for test, prefix in self._tests.items()
            if test not in self._passed
        )
        folders = {Path(prefix).parent for prefix in self._tests.values()}
        for parent in {folder.parent for folder in folders}:
            # Of a module that was deleted or renamed.
            folders |= {
                folder
                for folder in parent.glob("*/")
                if not any(parent.parent.glob(f"{folder.name}.*"))
            }
        for folder in sorted(folders):
            for path in sorted(folder.glob("*.json")):
                name = str(path)
                if name not in self._used and not name.startswith(needed):
                    yield path

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Say which files were written, and which are unused."""
        if hasattr(self._config, "workeroutput"):
            # A worker of pytest-xdist knows of some of the tests only.
            return
        option = self._config.option
        lines = [f"wrote {_shown(Path(p))}" for p in self._written]
        # Then pytest leaves out tests without saying which.
        some = any("::" in argument for argument in self._config.args)
        if not some and not getattr(option, "lf", False):
            for path in self._unused():
                if option.shardscope_update:
                    path.unlink()
                    lines.append(f"deleted {_shown(path)}, which is unused")
                else:
                    lines.append(
                        f"no test uses {_shown(path)}: delete it, or have "
                        "--shardscope-update do so"
                    )
        if lines:
            terminalreporter.section("shardscope")
        for line in sorted(lines):
            terminalreporter.line(line)


def pytest_configure(config: pytest.Config) -> None:
    """Gather what is reported in the end."""
    config.pluginmanager.register(_Reports(config), "shardscope reports")
