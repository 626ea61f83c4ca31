"""The public names, as Python and as type checkers find them."""

import ast
from pathlib import Path

import shardbook


def test_type_checkers_find_what_python_finds() -> None:
    """Both find the same names, in the same modules."""
    text = Path(shardbook.__file__).read_text("utf-8")
    found = {
        name.asname: node.module
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom)
        and (node.module or "").startswith("shardbook.")
        for name in node.names
    }

    assert found == {
        name: f"shardbook.{home}" for name, home in shardbook._HOMES.items()
    }
    for name in shardbook.__all__:
        assert getattr(shardbook, name).__name__ == name
