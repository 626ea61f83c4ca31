"""The examples in the docstrings of public functions, and in the README."""

import doctest
import re
import subprocess
import sys
from pathlib import Path

import pytest

from shardbook.tools import draw, layout, program, raises


@pytest.mark.parametrize("module", [draw, layout, program, raises])
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


def test_the_readme_prints_in_a_script(tmp_path: Path) -> None:
    """Its lines on your own model show something when they are a file."""
    readme = Path(__file__).parents[2] / "README.md"
    block = re.compile("^```python\n(.*?)^```", re.M | re.S)
    (code,) = block.findall(readme.read_text("utf-8"))
    script = tmp_path / "look.py"
    script.write_text(MODEL + code)
    command = (sys.executable, script)
    said = subprocess.run(
        command, cwd=tmp_path, check=True, capture_output=True, text=True
    ).stdout

    for part in ("each device", "device 0: [0:8, 0:4]", "temporaries"):
        assert part in said
