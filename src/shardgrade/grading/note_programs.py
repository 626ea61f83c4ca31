"""Note the programs that are compiled or run, if this jax shows them."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cache
from itertools import count
from typing import Any

import jax

from shardgrade.grading._jax_internals import (
    MissingInternal,
    compilations,
    runs,
)
from shardgrade.grading.attempt import Attempt
from shardscope.programs.program import program
from shardscope.programs.report import Program

# jax takes nothing from its caches that it compiled with another value.
_ANEW = jax.make_user_context(0)
_VALUES = count(1)


def compile_and_run(
    attempt: Attempt, function: Callable[..., Any], *args: Any
) -> tuple[Any, Program]:
    """Compile a function that calls the attempt, and call it once.

    Args:
        attempt: What the function calls.
        function: What to compile under ``jax.jit``.
        *args: Its arguments.

    Returns:
        What the call returned, and the program.
    """
    with attempt.running():
        executable = jax.jit(function).lower(*args).compile()
        result = jax.block_until_ready(executable(*args))
    return result, program(executable)


def note_if_shown(stack: ExitStack) -> list[Program] | MissingInternal:
    """Note each program that is compiled, if this jax shows them."""
    try:
        return stack.enter_context(note_compilations())
    except MissingInternal as error:
        return error


@contextmanager
def note_compilations() -> Iterator[list[Program]]:
    """Give each program that is compiled, whatever was compiled before."""
    seen: list[Program] = []

    # A program that is compiled already would not be seen.
    with (
        compilations(lambda *each: seen.append(_program_of(*each))),
        compile_anew(),
    ):
        yield seen


@contextmanager
def note_runs() -> Iterator[list[Program]]:
    """Give each program that is run, as often as it is run.

    One that the attempt has compiled by ``lower().compile()`` is given
    once.
    """
    seen: list[Program] = []
    program_of = cache(_program_of)
    # A function that has run already would take its shortcut.
    with runs(lambda each: seen.append(program_of(each))), compile_anew():
        yield seen


def compile_anew() -> AbstractContextManager[object]:
    """Give a context in which jax compiles what it has compiled before.

    What is in the caches stays there, for the calls after it.
    """
    anew: AbstractContextManager[object] = _ANEW(next(_VALUES))
    return anew


def _program_of(executable: Any, module: Any = None) -> Program:
    text = "\n".join(m.to_string() for m in executable.hlo_modules())
    stats = executable.get_compiled_memory_stats()
    return Program.of(text, stats, module)
