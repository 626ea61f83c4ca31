"""Count what the devices say to each other in a compiled program."""

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import jax

_COLLECTIVE = re.compile(
    r" (all-gather|all-reduce|all-to-all|collective-broadcast"
    r"|collective-permute|ragged-all-to-all|reduce-scatter)(?:-start)?\("
)


def count_collectives(program: str) -> dict[str, int]:
    """Count the collectives in the text of a compiled program."""
    return dict(sorted(Counter(_COLLECTIVE.findall(program)).items()))


def collectives(
    function: Callable[..., Any], *args: Any, **kwargs: Any
) -> dict[str, int]:
    """Count the collectives in the compiled program of a call.

    The function is compiled for these arguments, not run.
    A collective inside a loop counts once, however often the loop runs.

    Args:
        function: The function to compile. One that has ``lower``, as
            :func:`jax.jit` and :func:`flax.nnx.jit` give it, is compiled
            as it is; any other is put under :func:`jax.jit` first.
        *args: Arguments of the call, laid out as they would be.
        **kwargs: Keyword arguments of the call.

    Returns:
        The number of instructions of each kind in the optimised program,
        such as ``{"all-reduce": 1}``. Empty if the devices need not talk.
    """
    if not hasattr(function, "lower"):
        function = jax.jit(function)
    program = function.lower(*args, **kwargs).compile()
    return count_collectives(program.as_text())
