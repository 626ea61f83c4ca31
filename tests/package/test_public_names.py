"""The public names, as Python and as type checkers find them."""

import pkgutil
from types import ModuleType

import pytest

import shardbook
import shardgrade
import shardscope

LAZY = pytest.mark.parametrize("package", [shardscope, shardgrade])


@LAZY
def test_python_finds_what_type_checkers_find(package: ModuleType) -> None:
    """Each public name is that of a function or a class of the package."""
    found = {each: getattr(package, each) for each in package.__all__}

    assert found
    for name, value in found.items():
        assert value.__name__ == name
        assert value.__module__.startswith(f"{package.__name__}.")


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
