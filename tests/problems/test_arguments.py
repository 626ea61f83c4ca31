"""The solutions that take a seed, an x and a number of features."""

import importlib
import inspect
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from shardbook.problems import NAMES

# The numbers that every dtype has, bool too.
ROW = np.array([1, 0, 1], np.float32)
# A problem takes a batch of rows where nothing else is listed.
X = {"split_merge_round_trip": ROW}
CASES = []
for name in NAMES:
    module = importlib.import_module(f"shardbook.problems.{name}")
    solution = getattr(module, name)
    parameters = list(inspect.signature(solution).parameters)
    if parameters == ["seed", "x", "features"]:
        x = X.get(name, ROW[None])
        CASES.append(pytest.param(solution, x, id=name))
pytestmark = pytest.mark.parametrize(("solution", "x"), CASES)


@pytest.mark.parametrize("kind", [float, np.float32, np.int64, jnp.array])
def test_whole_numbers(solution: Any, x: np.ndarray, kind: Any) -> None:
    """A solution takes whole numbers of any type."""
    result = solution(kind(3.0), x, kind(8.0))

    np.testing.assert_array_equal(result, solution(3, x, 8))


@pytest.mark.parametrize("value", [0.5, np.nan, np.inf, jnp.array(-2.5)])
@pytest.mark.parametrize("name", ["seed", "features"])
def test_fractions(
    solution: Any, x: np.ndarray, name: str, value: Any
) -> None:
    """A solution refuses a seed or features that are not whole."""
    with pytest.raises(ValueError, match=f"must be whole, got .*{value}"):
        solution(**{"seed": 0, "x": x, "features": 8, name: value})


@pytest.mark.parametrize("kind", [np.array, jnp.asarray])
@pytest.mark.parametrize(
    "dtype", [np.float64, jnp.bfloat16, np.int32, bool]
)
def test_dtypes(
    solution: Any, x: np.ndarray, dtype: Any, kind: Any
) -> None:
    """A solution gives float32 for an x of any dtype, NumPy's or JAX's."""
    result = solution(0, kind(x.astype(dtype)), 8)

    assert result.dtype == jnp.float32
    np.testing.assert_array_equal(result, solution(0, x, 8))
