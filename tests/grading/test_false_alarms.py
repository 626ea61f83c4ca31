"""program() finds nothing wrong with any solution."""

import importlib
from collections.abc import Iterator
from typing import Any

import pytest
from sizes import all_but

from shardbook.problems import NAMES
from shardgrade.grading.attempt import solution
from shardgrade.grading.cases import Case, compiled_programs
from shardscope.programs import findings

MAIN = ("fsdp_step", "megatron_mlp", "data_parallel_step")


def cases_in(value: Any) -> Iterator[Case]:
    """Find the cases of a check, however it lists them."""
    if isinstance(value, Case):
        yield value
    elif isinstance(value, list | tuple):
        for each in value:
            yield from cases_in(each)


@pytest.mark.parametrize(
    "name", all_but(MAIN, NAMES, "some strategies show the same")
)
def test_nothing_looks_wrong_with_a_solution(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither with its steps nor with what else it compiles.

    However small: there is no limit. Some calls of the checks take what is
    on one device.
    """
    monkeypatch.setattr(findings, "LARGE", 0)
    checks = importlib.import_module(f"shardgrade.checks.{name}")
    found = {each.code: each for each in cases_in([*vars(checks).values()])}
    steps = [each for each in found.values() if each.step]
    for case in steps or [Case(checks.EXAMPLE, programs=True)]:
        for each in compiled_programs(solution(name), case):
            found = [x for x in each.findings() if x.rule != "copied"]
            assert not found, case.code
