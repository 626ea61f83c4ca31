"""The round trip of a Linear through its state."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from shardbook.problems.split_merge_round_trip import split_merge_round_trip

X = jnp.array([1.0, 2.0, 3.0])


@pytest.mark.parametrize("seed", [0, 1, 7])
@pytest.mark.parametrize("features", [1, 4, 10])
def test_both_sums_are_those_of_the_layer(seed: int, features: int) -> None:
    """The result is twice the sum of a plain Linear's output, and 0."""
    total = nnx.Linear(3, features, rngs=nnx.Rngs(seed))(X).sum()

    result = split_merge_round_trip(seed, X, features)

    assert result.shape == (3,)
    assert result.dtype == jnp.float32
    np.testing.assert_array_equal(result, jnp.array([total, total, 0.0]))


def test_the_example_of_the_source() -> None:
    """Three inputs, four outputs, seed 0: no difference."""
    before, after, difference = split_merge_round_trip(0.0, X, 4.0)

    assert before == after
    assert difference == 0.0


@pytest.mark.parametrize("odd", [np.nan, np.inf])
def test_what_is_not_finite_shows(odd: float) -> None:
    """A NaN or an infinity in x leaves no difference to speak of."""
    result = split_merge_round_trip(0, X.at[1].set(odd), 4)

    assert np.isnan(result[2])


def test_it_can_be_compiled() -> None:
    """Under jit, with seed and features fixed, it gives the same."""
    compiled = jax.jit(lambda x: split_merge_round_trip(0, x, 4))

    np.testing.assert_allclose(
        compiled(X), split_merge_round_trip(0, X, 4), rtol=1e-6
    )
