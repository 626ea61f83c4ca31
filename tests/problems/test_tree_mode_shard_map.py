"""What comes back from nnx.shard_map in tree mode."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from shardbook.problems import tree_mode_shard_map as solution


def example(seed: int, shape: tuple[int, int]) -> np.ndarray:
    """Draw an x."""
    x = np.random.default_rng(seed).normal(size=shape)
    return x.astype(np.float32)


@pytest.mark.parametrize(
    ("seed", "shape", "features"),
    [
        (0, (5, 3), 8),
        (7, (4, 6), 16),
        (3, (1, 2), 6),
        (11, (9, 4), 24),
        (2**32 - 1, (2, 1), 1),
    ],
)
def test_it_is_what_numpy_computes(
    seed: int, shape: tuple[int, int], features: int
) -> None:
    """tree_mode_shard_map returns the sums of x @ kernel + bias."""
    x = example(seed, shape)
    model = nnx.Linear(shape[1], features, rngs=nnx.Rngs(seed))
    y = x @ np.array(model.kernel) + np.array(model.bias)

    result = solution.tree_mode_shard_map(seed, x, features)

    expected = [y.sum(), y[0, -1], 2 * y.sum(), 2, features, 0, 0]
    assert result.shape == (7,)
    assert result.dtype == jnp.float32
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("features", [8, 6, 7])
def test_each_device_works_on_its_columns(
    monkeypatch: pytest.MonkeyPatch, features: int
) -> None:
    """TPLinear.step sees a shard of the columns on each device."""
    seen = []
    step = solution.TPLinear.step

    def spy(self: solution.TPLinear, x: jax.Array) -> jax.Array:
        y = step(self, x)
        parts = (self.linear.kernel, self.linear.bias, self.colsum)
        seen.append([part.shape for part in parts])
        return y

    monkeypatch.setattr(solution.TPLinear, "step", spy)
    solution.tree_mode_shard_map(0, example(0, (5, 3)), features)
    columns = features // math.gcd(features, jax.device_count())

    assert seen
    for shapes in seen:
        assert shapes == [(3, columns), (columns,), (columns,)]
