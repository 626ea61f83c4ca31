"""The examples in the docstrings of public functions, and in the README."""

import doctest
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import jax
import pytest

from shardbook import show_error
from shardbook_site.cells import CELL
from shardscope.cluster import processes
from shardscope.drawings import draw
from shardscope.layouts import layout
from shardscope.programs import program, report

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "module", [draw, layout, processes, program, show_error, report]
)
def test_the_examples_print_what_they_show(module: object) -> None:
    """Each example of a module runs and prints what its docstring shows."""
    failed, attempted = doctest.testmod(module, raise_on_error=False)

    assert attempted > 0
    assert failed == 0


MODEL = """
import jax
import jax.numpy as jnp
import optax
from flax import nnx

jax.config.update("jax_platforms", "cpu")
model = nnx.Linear(8, 4, rngs=nnx.Rngs(0))
optimizer = nnx.Optimizer(model, optax.sgd(0.1), wrt=nnx.Param)
batch = jnp.ones((2, 8))


@nnx.jit
def train_step(model, optimizer, batch):
    gradient = nnx.grad(lambda model: model(batch).sum())(model)
    optimizer.update(model, gradient)
"""

README = (ROOT / "README.md").read_text("utf-8")
BLOCK = re.compile("^```(\\w+)\n(.*?)^```", re.M | re.S)
PYTHON, TEXT = (
    [block for kind, block in BLOCK.findall(README) if kind == wanted]
    for wanted in ("python", "text")
)


def said(command: Sequence[str | Path], folder: Path) -> str:
    """Run a command in a folder; return what it prints."""
    # What pytest imports may set the width of a terminal.
    environment = {**os.environ, "COLUMNS": "76"}
    return subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    ).stdout


def test_the_readme_prints_in_a_script(tmp_path: Path) -> None:
    """Its lines on your own model show something when they are a file."""
    script = tmp_path / "look.py"
    script.write_text(MODEL + PYTHON[1])
    printed = said((sys.executable, script), tmp_path)

    for part in ("bytes each", "device 0: [0:8, 0:4]", "temporaries"):
        assert part in printed


@pytest.mark.skipif(
    jax.__version_info__ < (0, 12), reason="XLA names other lines there"
)
def test_the_collectives_of_the_readme_are_real(tmp_path: Path) -> None:
    """The recipe's step communicates what the README says."""
    recipe = (ROOT / "docs" / "recipe.md").read_text("utf-8")
    setup, lines = CELL.findall(recipe)[:2]
    report = """
rows = NamedSharding(mesh, P("data"))
tokens = jax.device_put(next(batches()), rows)
print(program(train_step, model, optimizer, tokens))
"""
    (tmp_path / "train.py").write_text(f"{setup}\n{lines}{report}")
    printed = said((sys.executable, "train.py"), tmp_path)

    assert TEXT[0] in printed


def test_the_lost_batch_of_the_readme_is_real(tmp_path: Path) -> None:
    """The model of the guide loses its batch at the README's line."""
    guide = (ROOT / "docs" / "guides" / "why.md").read_text("utf-8")
    cells = [*CELL.findall(guide)[:2], "print(seen)"]
    (tmp_path / "model.py").write_text("\n".join(cells))
    printed = said((sys.executable, "model.py"), tmp_path)

    assert TEXT[1] in printed
