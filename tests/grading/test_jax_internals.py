"""The private parts of jax that the grader needs are where they were."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest

from shardgrade.grading import _jax_internals

ENTERED: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "compilations": lambda: _jax_internals.compilations(print),
    "runs": lambda: _jax_internals.runs(print),
    "shard_maps": _jax_internals.shard_maps,
    "copies_through_host": _jax_internals.copies_through_host,
}


@pytest.mark.parametrize("name", ENTERED)
def test_a_private_part_is_there(name: str) -> None:
    """The grader finds the private part of jax that it replaces."""
    with ENTERED[name]():
        pass


def test_the_barrier_is_there() -> None:
    """The grader finds jax's barrier of several processes."""
    _jax_internals.wait_for_others()
