"""All solutions take the same arguments, and refuse the same mistakes."""

import importlib
import re
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shardbook.problems import NAMES

Solution = Callable[..., jax.Array]
# How many axes x has; the second problem takes one or more.
NDIM = {"split_merge_round_trip": 1, "state_zero_kernel": 1}


def solution(name: str) -> Solution:
    """Import the function of a problem."""
    return getattr(
        importlib.import_module(f"shardbook.problems.{name}"), name
    )


def example(name: str) -> np.ndarray:
    """Give an x that the problem takes."""
    shape = (5, 3)[-NDIM.get(name, 2) :]
    values = np.random.default_rng(0).normal(size=shape)
    return values.astype(np.float32)


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    """Each problem in turn."""
    return request.param


@pytest.mark.parametrize(
    "features",
    [8.0, np.float32(8), np.int64(8), np.array(8), jnp.array(8.0)],
    ids=repr,
)
def test_whole_numbers_of_any_kind(name: str, features: float) -> None:
    """A whole number is taken as an int, whatever its type."""
    expected = solution(name)(3, example(name), 8)

    np.testing.assert_array_equal(
        solution(name)(3.0, example(name), features), expected
    )


def test_one_feature_is_enough(name: str) -> None:
    """The smallest number of features is taken."""
    assert np.isfinite(solution(name)(0, example(name), 1)).all()


@pytest.mark.parametrize("seed", [0, 2**32 - 1, np.uint32(2**32 - 1)])
def test_seeds_at_the_ends(name: str, seed: int) -> None:
    """The first and the last seed are taken."""
    assert np.isfinite(solution(name)(seed, example(name), 2)).all()


@pytest.mark.parametrize(
    "value",
    [np.nan, np.inf, -np.inf, 0.5, -1, np.float32(2.5), jnp.array(np.nan)],
    ids=repr,
)
@pytest.mark.parametrize("argument", ["seed", "features"])
def test_numbers_that_are_not_whole(
    name: str, argument: str, value: float
) -> None:
    """NaN, infinities, fractions and negative numbers are refused."""
    arguments = {"seed": 0, "features": 8, argument: value}
    wanted = rf"{argument} must be a whole number in \[.*\), got .*"

    with pytest.raises(ValueError, match=wanted):
        solution(name)(x=example(name), **arguments)


@pytest.mark.parametrize(
    ("argument", "value"),
    [("seed", 2**32), ("seed", 2**70), ("seed", 1e30), ("features", 0)],
)
def test_numbers_out_of_range(
    name: str, argument: str, value: float
) -> None:
    """A seed of more than 32 bits and no features at all are refused."""
    arguments = {"seed": 0, "features": 8, argument: value}

    with pytest.raises(ValueError, match=f"{argument} must be .*, got "):
        solution(name)(x=example(name), **arguments)


@pytest.mark.parametrize(
    "value",
    [
        True,
        np.bool_(True),
        "8",
        None,
        8j,
        [8],
        np.ones(1),
        jnp.ones((1, 1)),
        jnp.array(True),
    ],
    ids=repr,
)
@pytest.mark.parametrize("argument", ["seed", "features"])
def test_things_that_are_no_numbers(
    name: str, argument: str, value: object
) -> None:
    """What is no number is refused, even where int() would take it."""
    arguments = {"seed": 0, "features": 8, argument: value}

    with pytest.raises(TypeError, match=f"{argument} must be .*, got "):
        solution(name)(x=example(name), **arguments)


@pytest.mark.parametrize(
    "dtype",
    [np.float64, np.float16, jnp.bfloat16, np.int32, np.uint8, bool],
)
def test_every_real_dtype_gives_float32(name: str, dtype: type) -> None:
    """The dtype of x is free; the result is float32."""
    result = solution(name)(0, example(name).astype(dtype), 4)

    assert result.dtype == jnp.float32


def test_jax_and_numpy_arrays_are_alike(name: str) -> None:
    """An x from NumPy gives what the same x from JAX gives."""
    x = example(name)

    np.testing.assert_array_equal(
        solution(name)(0, x, 4), solution(name)(0, jnp.asarray(x), 4)
    )


@pytest.mark.parametrize(
    "x",
    [
        None,
        3.0,
        np.float32(3),
        [1.0, 2.0],
        np.ones((5, 3), complex),
        np.full((5, 3), "a"),
        np.full((5, 3), None),
        jax.ShapeDtypeStruct((5, 3), jnp.float32),
    ],
    ids=[
        "None",
        "number",
        "scalar",
        "list",
        "complex",
        "strings",
        "objects",
        "abstract",
    ],
)
def test_things_that_are_no_arrays_of_real_numbers(
    name: str, x: object
) -> None:
    """Lists, scalars, abstract and complex arrays are refused."""
    with pytest.raises(TypeError, match=r"x must be a non-empty .*, got "):
        solution(name)(0, x, 8)


def test_random_keys_are_no_numbers(name: str) -> None:
    """An array of keys is refused."""
    with pytest.raises(TypeError, match=r"x must be a non-empty .*, got "):
        solution(name)(0, jax.random.split(jax.random.key(0), (5, 3)), 8)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (5, 0), (), (1, 2, 3)])
def test_shapes_that_do_not_fit(name: str, shape: tuple[int, ...]) -> None:
    """Another rank, and an axis without entries, are refused."""
    if name == "state_zero_kernel" and shape == (1, 2, 3):
        shape = (1, 0, 3)  # It takes any number of leading axes.
    wanted = rf"x must be a non-empty .*, got shape {re.escape(str(shape))}"

    with pytest.raises(ValueError, match=wanted):
        solution(name)(0, np.ones(shape, np.float32), 8)
