"""What comes back from nnx.shard_map in tree mode."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from shardbook.problems import tree_mode_shard_map as solution

# Seed, shape of x, features.
CASES = [(0, (5, 3), 8), (7, (4, 6), 16), (3, (1, 2), 6), (11, (9, 4), 24)]


def example(seed: int, shape: tuple[int, int]) -> jax.Array:
    """Give the x of a case."""
    x = np.random.default_rng(seed).normal(size=shape)
    return jnp.asarray(x, jnp.float32)


@pytest.mark.parametrize(("seed", "shape", "features"), CASES)
def test_it_is_what_one_device_computes(
    seed: int, shape: tuple[int, int], features: int
) -> None:
    """The outputs are a plain Linear's; the books are kept, two dropped."""
    x = example(seed, shape)
    y = nnx.Linear(shape[1], features, rngs=nnx.Rngs(seed))(x)

    result = solution.tree_mode_shard_map(seed, x, features)

    expected = [y.sum(), y[0, -1], 2 * y.sum(), 2, features, 0, 0]
    assert result.shape == (7,)
    assert result.dtype == jnp.float32
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(
    ("case", "expected"),
    list(
        zip(
            CASES,
            [
                [2.08746, 0.29689, 4.17493, 2, 8, 0, 0],
                [-9.34274, 0.15564, -18.68547, 2, 16, 0, 0],
                [-2.11, 0.90917, -4.22, 2, 6, 0, 0],
                [-15.13498, -1.59995, -30.26995, 2, 24, 0, 0],
            ],
            strict=True,
        )
    ),
)
def test_the_values_of_the_contract(
    case: tuple[int, tuple[int, int], int], expected: list[float]
) -> None:
    """The four examples of the contract, to five digits."""
    seed, shape, features = case

    result = solution.tree_mode_shard_map(
        seed, example(seed, shape), features
    )

    np.testing.assert_allclose(result, expected, atol=1e-4)


@pytest.mark.parametrize("features", [8, 6, 7])
def test_each_device_works_on_its_columns(
    monkeypatch: pytest.MonkeyPatch, features: int
) -> None:
    """The step sees slices, as many as there are devices to share them."""
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
