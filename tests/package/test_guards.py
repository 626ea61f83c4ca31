"""What the solutions do with arguments of every kind."""

import importlib
import inspect
import math
import re
from collections.abc import Callable
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as npst

from shardbook.problems import NAMES

GUARDS = [
    importlib.import_module(f"shardbook.problems.{name}") for name in NAMES
]
whole = GUARDS[0]._whole
# The problem whose x may have more axes than are asked for.
MORE = "state_zero_kernel"
REAL = [
    *(np.int8, np.int16, np.int32, np.int64, jnp.int4),
    *(np.uint8, np.uint16, np.uint32, np.uint64, jnp.uint4),
    *(np.float16, np.float32, np.float64),
    *(jnp.bfloat16, jnp.float8_e4m3fn, jnp.float8_e5m2),
]
NOT_REAL = [np.complex64, np.complex128, "S1", "U1", "M8[s]", object]
WHOLE_FLOATS = st.integers(-2, 2**33).map(float)


@st.composite
def ones(draw: st.DrawFn, dtypes: list[Any]) -> Any:
    """Draw a number of some dtype: of NumPy, of JAX, or of no axes."""
    number = draw(st.floats(width=32) | WHOLE_FLOATS)
    dtype = draw(st.sampled_from(dtypes))
    # What overflows is an infinity, which is a number like any other.
    with np.errstate(all="ignore"):
        array = np.asarray(number).astype(dtype)
    kinds = (np.asarray, jnp.asarray, lambda array: array[()])
    return draw(st.sampled_from(kinds))(array)


NUMBERS = st.one_of(
    st.integers(-2, 9),
    st.integers(2**32 - 2, 2**32 + 1),
    # Of longer ones, Python itself refuses to print the digits.
    st.integers(-(10**4299), 10**4299),
    st.floats(),
    WHOLE_FLOATS,
    ones(REAL),
)
THINGS = st.one_of(
    *(st.text(), st.binary(), st.none(), st.booleans(), st.dates()),
    *(st.fractions(), st.decimals(), st.complex_numbers()),
    ones([np.bool_, np.complex64, np.complex128]),
    st.sampled_from(
        [
            *(
                object(),
                int,
                jnp.float32,
                [8],
                np.ones(1),
                jnp.ones((1, 1)),
            ),
            *(np.str_("8"), np.datetime64(8, "s"), np.array(None)),
            *(jax.random.key(0), jax.ShapeDtypeStruct((), jnp.float32)),
        ]
    ),
)
RANGES = st.sampled_from([(0, 2**32), (1, math.inf)])


def refusal(value: Any, ends: tuple[int, float]) -> str:
    """Say what was expected, and what came."""
    low, high = ends
    return f"seed must be a whole number in [{low}, {high}), got {value!r}"


@given(NUMBERS, RANGES)
def test_a_number(number: Any, ends: tuple[int, float]) -> None:
    """It is taken if int() gives the same number, and in the range."""
    low, high = ends
    same = isinstance(number, int) or float(number).is_integer()
    if same and low <= int(number) < high:
        result = whole("seed", number, low, high)

        assert (type(result), result) == (int, int(number))
        return
    with pytest.raises(ValueError, match=r"^seed must be a ") as caught:
        whole("seed", number, low, high)

    assert str(caught.value) == refusal(number, ends)


@given(THINGS, RANGES)
def test_no_number(thing: Any, ends: tuple[int, float]) -> None:
    """It is refused, with its name and what was expected and received."""
    with pytest.raises(TypeError) as caught:
        whole("seed", thing, *ends)

    assert str(caught.value) == refusal(thing, ends)


@given(
    st.sampled_from(GUARDS),
    st.sampled_from([*REAL, np.bool_, *NOT_REAL]),
    npst.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3),
    st.sampled_from([np.asarray, jnp.asarray]),
    st.integers(1, 2),
)
def test_an_array(
    module: ModuleType,
    dtype: type,
    shape: tuple[int, ...],
    kind: Callable[[Any], Any],
    ndim: int,
) -> None:
    """It comes as NumPy casts it, if it is of real numbers and fits."""
    x = np.arange(math.prod(shape)).reshape(shape).astype(dtype)
    if dtype not in NOT_REAL[2:]:
        x = kind(x)
    more = module.__name__.endswith(MORE)
    fits = x.size and (x.ndim >= ndim if more else x.ndim == ndim)
    if dtype not in NOT_REAL and fits:
        result = module._real("x", x, ndim)

        assert isinstance(result, jax.Array)
        assert result.dtype == jnp.float32
        np.testing.assert_array_equal(result, np.asarray(x, np.float32))
        return
    error = TypeError if dtype in NOT_REAL else ValueError
    got = repr(x) if dtype in NOT_REAL else f"shape {shape}"
    wanted = (
        rf"^x must be a non-empty .*\b{ndim}-D.*, got {re.escape(got)}$"
    )

    with pytest.raises(error, match=wanted):
        module._real("x", x, ndim)


def test_the_copies_are_equal() -> None:
    """A solution runs on its own, so each has its copy of the guards."""
    of_whole = {inspect.getsource(module._whole) for module in GUARDS}
    of_real = {
        inspect.getsource(module._real)
        for module in GUARDS
        if not module.__name__.endswith(MORE)
    }

    assert (len(of_whole), len(of_real)) == (1, 1)
