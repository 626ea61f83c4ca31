"""Without LLVM's passes, XLA plans the same programs.

So the other tests do without these passes, which take half of the time.
"""

import importlib
import json
import os
import re
import subprocess
import sys
from typing import Any

import jax
import pytest

from shardbook.problems import NAMES
from shardgrade.grading.attempt import solution
from shardgrade.grading.cases import Case, compiled_programs


def programs(name: str) -> list[dict[str, Any]]:
    """Give what XLA planned for the example call of a problem."""
    call = importlib.import_module(f"shardgrade.checks.{name}").EXAMPLE
    return [
        {
            "text": anonymous(each.text),
            "memory": repr(each.memory),
            "collectives": each.collectives,
        }
        for each in compiled_programs(
            solution(name), Case(call, programs=True)
        )
    ]


def anonymous(text: str) -> str:
    """Number what has a name as it comes, and leave out whence it comes.

    In what order jax traces some operations differs from run to run.
    """
    lines = r"^\d+ .*\n|, metadata=\{[^}]*\}"
    names: dict[str, str] = {}
    return re.sub(
        r"%[\w.-]+",
        lambda found: names.setdefault(found[0], f"%{len(names)}"),
        re.sub(lines, "", text, flags=re.MULTILINE),
    )


def planned(flags: str) -> dict[str, list[dict[str, Any]]]:
    """Compile the example call of every problem with some flags of XLA."""
    result = subprocess.run(
        (sys.executable, __file__),
        env={**os.environ, "XLA_FLAGS": flags},
        stdout=subprocess.PIPE,
        check=True,
    )
    return json.loads(result.stdout)


@pytest.mark.exhaustive("it compiles all programs twice")
def test_programs_do_not_depend_on_the_passes_of_llvm() -> None:
    """Text, memory and collectives are the same with and without them."""
    usual = planned("")
    ours = planned("--xla_backend_optimization_level=0")

    assert usual.keys() == {*NAMES}
    for name in NAMES:
        assert ours[name] == usual[name], name
    found = [each for some in usual.values() for each in some]
    assert any(each["collectives"] for each in found)


if __name__ == "__main__":
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", 8)
    json.dump({name: programs(name) for name in NAMES}, sys.stdout)
