"""Grading a function from a notebook cell."""

import math
from collections.abc import Iterator
from pathlib import Path

import jax
import jax.numpy as jnp
import nbclient
import pytest
from flax import nnx
from nbformat import v4 as notebook
from sizes import all_but

import shardgrade
from shardbook.problems.state_zero_kernel import state_zero_kernel
from shardgrade.reader import attempt_files, check


@pytest.fixture(scope="module", autouse=True)
def _no_server_is_left() -> Iterator[None]:
    """End the process that grades, which other tests would find."""
    yield
    check._sandbox().close()
    check._sandbox.cache_clear()


def defined_in_a_cell(text: str, name: str) -> object:
    """Define a function as a notebook does: in no module."""
    names = {"__name__": "__main__"}
    exec(compile(text, "<cell>", "exec"), names)
    return names[name]


def test_a_right_function(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A right function takes along what it uses; no file is written."""
    monkeypatch.chdir(tmp_path)
    attempt_files.FOLDER.mkdir()
    text = attempt_files.solution("state_zero_kernel")
    verdict = shardgrade.check(defined_in_a_cell(text, "state_zero_kernel"))

    assert verdict.right, verdict
    assert [*tmp_path.rglob("*")] == [tmp_path / attempt_files.FOLDER]
    assert ">  right<" in verdict._repr_html_()


def test_what_decorators_make() -> None:
    """Compiled functions are graded, with caches and what they use."""
    text = attempt_files.solution("state_zero_kernel")
    caches = (
        "import functools\n"
        "@functools.lru_cache(maxsize=7)\n"
        "def double(n): return 2 * n\n"
        "class Two:\n"
        "    @functools.cached_property\n"
        "    def four(self): return double(2)\n"
    )
    used = (
        "    assert Two().four == 4\n"
        "    assert double.cache_parameters()['maxsize'] == 7\n"
    )
    text = caches + text.replace(attempt_files.MARK, used)
    function = defined_in_a_cell(text, "state_zero_kernel")
    static = {"static_argnums": (0, 2)}

    for each in (
        function,
        jax.jit(function, **static),
        nnx.jit(function, **static),
    ):
        verdict = shardgrade.check(each)
        assert verdict.right, verdict


def test_what_can_not_be_sent() -> None:
    """check() says so if a function uses what no process can be sent."""
    text = "import threading\nlock = threading.Lock()\n"
    text += "def state_zero_kernel(*_): return lock"
    function = defined_in_a_cell(text, "state_zero_kernel")

    with pytest.raises(TypeError, match="can't be sent to"):
        shardgrade.check(function)


def test_a_wrong_function() -> None:
    """A wrong function is wrong by the same checks as a file."""

    def state_zero_kernel(
        seed: float, x: object, features: float
    ) -> object:
        return jnp.ones((*x.shape[:-1], int(features)))

    verdict = shardgrade.check(state_zero_kernel)

    assert (verdict.status, verdict.check) == ("wrong", "values")
    assert "0 * NaN" in repr(verdict)
    assert "&lt;" in verdict.update(got="<b>")._repr_html_()


def test_a_function_that_is_not_written() -> None:
    """A starter that is defined in a cell is not written."""
    text = attempt_files.starter("state_zero_kernel")
    verdict = shardgrade.check(defined_in_a_cell(text, "state_zero_kernel"))

    assert verdict.status == "not written"


def test_what_is_no_attempt() -> None:
    """check() names what it refuses: another name, what is no function."""

    def solve() -> None:
        pass

    with pytest.raises(ValueError, match="Unknown problem 'solve'"):
        shardgrade.check(solve)

    class Solve:
        __name__ = "state_zero_kernel"

        def __call__(self) -> None:
            pass

    for each in (nnx.Linear, Solve(), len, 3):
        with pytest.raises(TypeError, match="a function that you have def"):
            shardgrade.check(each)


@pytest.mark.parametrize("seconds", [0, math.inf, math.nan])
def test_a_limit_that_is_none(seconds: float) -> None:
    """check() takes seconds up to a day."""
    with pytest.raises(ValueError, match="more than 0 and at most 86400"):
        shardgrade.check(state_zero_kernel, seconds=seconds)


def test_a_server_that_was_killed_between_two_calls() -> None:
    """The next call has another server."""
    shardgrade.check(state_zero_kernel)
    server = check._sandbox()._server().process
    server.kill()
    server.wait()

    assert shardgrade.check(state_zero_kernel).right


@pytest.mark.parametrize(
    "devices", all_but([None], [None, 1], "it starts a kernel")
)
def test_in_a_real_notebook(devices: int | None) -> None:
    """check() grades on 8 devices, however many the notebook has taken.

    A cell with the function, and one that shows the verdict.
    """
    name = "state_zero_kernel"
    taken = (
        "import jax\n"
        f"jax.config.update('jax_num_cpu_devices', {devices})\n"
        "jax.config.update('jax_enable_x64', True)\n"
        f"assert jax.device_count() == {devices}"
    )
    cells = [
        taken if devices else "",
        attempt_files.solution(name).replace(
            attempt_files.MARK,
            "    assert jax.device_count() == 8\n"
            "    assert not jax.config.jax_enable_x64\n",
        ),
        f"import shardgrade\nshardgrade.check({name})",
    ]
    book = notebook.new_notebook(
        cells=[notebook.new_code_cell(cell) for cell in cells]
    )
    nbclient.NotebookClient(
        book, timeout=120, kernel_name="python3"
    ).execute()
    (output,) = book.cells[-1].outputs

    assert ">  right<" in output["data"]["text/html"]
    assert "right" in output["data"]["text/plain"]
    assert "\x1b" not in output["data"]["text/plain"]
