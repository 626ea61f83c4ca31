"""Try one mutant, in a process of its own; say what caught it, or ""."""

import importlib
import importlib.util
import io
import os
import shutil
import sys
import warnings
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PYTEST = (
    "-qx",
    "--no-showlocals",
    "--tb=short",
    "-p",
    "no:cacheprovider",
    f"--rootdir={ROOT}",
)


def check(problem: str, path: str) -> str:
    """Grade a solution."""
    from shardbook.grading import run as grading

    verdict = grading.grade(problem, "file", path, problem)
    if verdict["status"] == "right":
        return ""
    return f"{verdict['status']} ({verdict['check']}): {verdict['why']}"


def test(problem: str, path: str) -> str:
    """Run the tests of the solutions, with another one in their place."""
    import pytest

    name = f"shardbook.problems.{problem}"
    spec = importlib.util.spec_from_file_location(name, path)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    setattr(importlib.import_module("shardbook.problems"), problem, module)
    tests = str(ROOT / "tests" / "problems")
    return failed(pytest.main([*PYTEST, "-k", problem, tests]))


def package(file: str, source: str) -> str:
    """Run the tests of the package, with other code in one of its files."""
    import pytest

    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "src", "src", ignore=ignored)
    Path("src", "shardbook", file).write_text(source, "utf-8")
    # Verdicts name sections of its pages.
    Path("docs").symlink_to(ROOT / "docs")
    sys.path.insert(0, os.path.abspath("src"))
    for name in [*sys.modules]:
        if name.partition(".")[0] == "shardbook":
            del sys.modules[name]
    os.environ["HYPOTHESIS_PROFILE"] = "first_failure"
    tests = [
        *(ROOT / "tests" / "package").glob("test_*.py"),
        ROOT / "tests" / "grading" / "test_same.py",
    ]
    own = f"test_{Path(file).stem.strip('_')}"
    if file.startswith("grading/"):
        names = ("attempts", "check", "verdict")
        tests += [ROOT / f"tests/grading/test_{name}.py" for name in names]
    files = [
        str(path)
        # The tests of the file first, for they fail first.
        for path in sorted(tests, key=lambda path: path.stem != own)
        # It builds a wheel of the code as it is.
        if path.stem != "test_wheel"
    ]
    # The attempts at one problem: those at all take minutes.
    some = ("-k", "not test_attempts or state_zero_kernel")
    return failed(pytest.main([*PYTEST, *some, *files]))


def failed(status: int) -> str:
    """Say whether tests failed; pytest has printed which, and why."""
    return f"pytest ended with {status}" if status else ""


def page(folder: str, blocks: list[tuple[str, str]]) -> str:
    """Run the cells of a page, and try its predictions."""
    from shardbook_site.prediction import CHOICE, was_printed

    os.chdir(folder)
    # A warning fails the build.
    warnings.simplefilter("default")
    names: dict[str, Any] = {"__name__": "__main__"}
    asked = ""
    for number, (code, choices) in enumerate(blocks, 1):
        printed, warned = io.StringIO(), io.StringIO()
        try:
            with redirect_stdout(printed), redirect_stderr(warned):
                exec(compile(code, f"block {number}", "exec"), names)
        except BaseException as error:
            return f"block {number}: {type(error).__name__}: {error}"
        if warned.getvalue():
            return f"block {number}: a warning: {warned.getvalue()}"
        for choice in CHOICE.finditer(asked):
            right = choice["mark"] == "x"
            printed_right = was_printed(choice["words"], printed.getvalue())
            if printed_right != right:
                words = choice["words"]
                return f"block {number}: the prediction {words!r}"
        asked = choices
    return ""
