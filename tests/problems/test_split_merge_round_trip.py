"""The round trip of a Linear through its graphdef and state."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from shardbook.problems.split_merge_round_trip import split_merge_round_trip

X = jnp.array([1.0, 2.0, 3.0])


@pytest.mark.parametrize("seed", [0, 7, 2**32 - 1])
@pytest.mark.parametrize("features", [1, 4, 10])
def test_both_sums_are_those_of_numpy(seed: int, features: int) -> None:
    """split_merge_round_trip returns the sum of x @ kernel + bias twice."""
    model = nnx.Linear(3, features, rngs=nnx.Rngs(seed))
    kernel, bias = np.array(model.kernel), np.array(model.bias)
    total = (np.array(X) @ kernel + bias).sum()

    result = split_merge_round_trip(seed, X, features)

    assert result.shape == (3,)
    assert result.dtype == jnp.float32
    np.testing.assert_allclose(result, [total, total, 0.0], rtol=1e-5)
    assert result[0] == result[1]
    assert result[2] == 0.0


@pytest.mark.parametrize("odd", [np.nan, np.inf])
def test_what_is_not_finite_shows(odd: float) -> None:
    """split_merge_round_trip returns NaN as the difference of NaNs."""
    result = split_merge_round_trip(0, X.at[1].set(odd), 4)

    assert np.isnan(result[2])


def test_it_can_be_compiled() -> None:
    """split_merge_round_trip gives the same under jax.jit."""
    compiled = jax.jit(lambda x: split_merge_round_trip(0, x, 4))

    np.testing.assert_allclose(
        compiled(X), split_merge_round_trip(0, X, 4), rtol=1e-6
    )
