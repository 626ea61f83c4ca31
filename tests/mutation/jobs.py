"""Try one mutant, in a process of its own; say what caught it, or ""."""

import importlib
import importlib.util
import io
import os
import sys
import warnings
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def check(problem: str, path: str) -> str:
    """Grade a solution."""
    from shardbook import grading

    verdict = grading.grade(problem, "file", path, problem)
    return "" if verdict["status"] == "right" else "a check"


def test(problem: str, path: str) -> str:
    """Run the tests of the solutions, with another one in their place."""
    import pytest

    name = f"shardbook.problems.{problem}"
    spec = importlib.util.spec_from_file_location(name, path)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    setattr(importlib.import_module("shardbook.problems"), problem, module)
    tests = str(ROOT / "tests" / "problems")
    options = ("-x", "-q", "-p", "no:cacheprovider", "-k", problem)
    status = pytest.main([tests, f"--rootdir={ROOT}", *options])
    return "" if status == 0 else "a test"


def page(folder: str, blocks: list[tuple[str, str]]) -> str:
    """Run the cells of a page, and try its predictions."""
    from predict import CHOICE, holds

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
            return f"block {number}: {type(error).__name__}"
        if warned.getvalue():
            return f"block {number}: a warning"
        for choice in CHOICE.finditer(asked):
            right = choice["mark"] == "x"
            if holds(choice["words"], printed.getvalue()) != right:
                return f"block {number}: the prediction"
        asked = choices
    return ""
