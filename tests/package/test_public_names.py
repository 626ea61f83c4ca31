"""The public names, as Python and as type checkers find them."""

import ast
import pkgutil
from pathlib import Path
from types import ModuleType

import pytest

import shardbook
import shardgrade
import shardscope

LAZY = pytest.mark.parametrize("package", [shardscope, shardgrade])


@LAZY
def test_type_checkers_find_what_python_finds(package: ModuleType) -> None:
    """Both find the same names, in the same modules."""
    name = package.__name__
    text = Path(str(package.__file__)).read_text("utf-8")
    found = {
        each.asname: node.module
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom)
        for each in node.names
        if each.asname
    }

    assert found == {
        each: f"{name}.{home}" for each, home in package._HOMES.items()
    }
    for each in package.__all__:
        assert getattr(package, each).__name__ == each


@LAZY
def test_no_module_takes_the_place_of_a_public_name(
    package: ModuleType,
) -> None:
    """Once a module is imported, it is an attribute of its package."""
    modules = {each.name for each in pkgutil.iter_modules(package.__path__)}

    assert modules.isdisjoint(package.__all__)


def test_an_unknown_name_of_the_book_says_where_tools_are() -> None:
    """The error names the packages that have what people look for."""
    name = "layout"
    with pytest.raises(AttributeError, match=r"shardscope.*shardgrade"):
        getattr(shardbook, name)
    assert shardbook.raises.__name__ == "raises"
