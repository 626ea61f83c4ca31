"""The examples in the docstrings of the public functions."""

import doctest

import pytest

from shardbook import _draw, _layout, _program, _raises


@pytest.mark.parametrize("module", [_draw, _layout, _program, _raises])
def test_the_examples_print_what_they_show(module: object) -> None:
    """Each example of a module runs and prints what its docstring shows."""
    failed, attempted = doctest.testmod(module, raise_on_error=False)

    assert attempted > 0
    assert failed == 0
