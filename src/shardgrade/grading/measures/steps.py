"""What a step that was returned does, call by call."""

from collections.abc import Callable
from typing import Any

from shardgrade.grading._jax_internals import MissingInternal
from shardgrade.grading.cases import Seen, leaves_by_path
from shardgrade.grading.measures.placement import shards_by_path
from shardgrade.grading.measures.programs import count_collectives
from shardgrade.grading.repeat_step import repeat_step
from shardscope.programs.report import Program


def step_results(seen: Seen) -> list[Any]:
    """Give what a step returned, each time that it was called."""
    return repeat_step(seen.attempt, seen.case).results


def step_arguments(seen: Seen) -> dict[str, Any]:
    """Give the arguments of a step as they are after the last call."""
    return leaves_by_path(repeat_step(seen.attempt, seen.case).arguments)


def step_shards(seen: Seen) -> dict[str, str]:
    """Describe where the arguments of a step are after the last call."""
    return shards_by_path(repeat_step(seen.attempt, seen.case).arguments)


def step_kept(*given: str) -> Callable[[Seen], str]:
    """Give the function that names what a step did not donate.

    Args:
        *given: The positions of the arguments that it has to donate.
    """

    def name(seen: Seen) -> str:
        kept = [
            path
            for path in repeat_step(seen.attempt, seen.case).kept
            if path.partition(".")[0] in given
        ]
        return f"still on the devices: {', '.join(kept) or 'nothing'}"

    return name


def step_collectives(seen: Seen) -> str:
    """Count the collectives in what the first call of a step compiles."""
    first, *_ = _step_programs(seen)
    return count_collectives(first)


def step_compilations(seen: Seen) -> str:
    """Say whether the later calls of a step compile anything."""
    _, *later = _step_programs(seen)
    count = sum(map(len, later))
    return f"{count} more programs" if count else "nothing more"


def _step_programs(seen: Seen) -> list[list[Program]]:
    programs = repeat_step(seen.attempt, seen.case).programs
    if isinstance(programs, MissingInternal):
        raise programs
    return programs
