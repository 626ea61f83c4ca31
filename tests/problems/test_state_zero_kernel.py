"""A Linear whose kernel is set to zeros in its state."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from shardbook.problems.state_zero_kernel import (
    state_zero_kernel,
    zero_if_kernel,
)
from shardscope import collectives


@pytest.mark.parametrize("shape", [(4,), (1,), (2, 4), (2, 3, 4)])
@pytest.mark.parametrize("features", [1, 6])
@pytest.mark.parametrize("first", [1.0, np.nan, np.inf])
def test_the_output_is_that_of_numpy(
    shape: tuple[int, ...], features: int, first: float
) -> None:
    """state_zero_kernel returns x @ zeros + ones, NaN and infinity too."""
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    x.flat[0] = first
    with np.errstate(invalid="ignore"):
        expected = x @ np.zeros((shape[-1], features)) + np.ones(features)

    result = state_zero_kernel(0, x, features)

    assert result.dtype == jnp.float32
    np.testing.assert_array_equal(result, expected)


def test_whole_numbers_of_any_type() -> None:
    """state_zero_kernel gives float32 for integers, and takes any seed."""
    x = np.arange(8).reshape(2, 1, 4)

    result = state_zero_kernel(float(2**32 - 1), x, 1.0)

    assert result.dtype == jnp.float32
    np.testing.assert_array_equal(result, np.ones((2, 1, 1)))


@pytest.mark.parametrize(("seed", "features"), [(0.5, 6), (0, np.nan)])
def test_what_is_not_whole_is_refused(seed: float, features: float) -> None:
    """state_zero_kernel takes no fraction and no NaN."""
    with pytest.raises(ValueError, match="must be whole"):
        state_zero_kernel(seed, np.ones(4), features)


class Named(nnx.Module):
    """A Module with "kernel" in more names than one."""

    def __init__(self) -> None:
        self.kernel_scale = nnx.Param(jnp.ones(3))
        self.kernel_block = nnx.Linear(2, 3, rngs=nnx.Rngs(0))
        self.kernel = nnx.Param(jnp.full((2, 2), jnp.inf))


def test_only_what_is_named_kernel() -> None:
    """zero_if_kernel leaves what only has "kernel" in its name."""
    module = Named()
    module.kernel_block.bias[...] = jnp.ones(3)

    state = jax.tree.map_with_path(zero_if_kernel, nnx.state(module))

    np.testing.assert_array_equal(state["kernel_scale"][...], np.ones(3))
    np.testing.assert_array_equal(state["kernel_block"]["bias"][...], 1.0)
    np.testing.assert_array_equal(state["kernel_block"]["kernel"][...], 0.0)
    np.testing.assert_array_equal(state["kernel"][...], np.zeros((2, 2)))


def test_dtype_and_sharding_are_kept(line: Mesh) -> None:
    """zero_if_kernel keeps both, and its program has no collective."""
    sharding = NamedSharding(line, P(None, "model"))
    ones = jnp.ones((4, 2 * line.size), jnp.bfloat16)
    kernel = jax.device_put(ones, sharding)

    path = (jax.tree_util.DictKey("kernel"),)
    zeros = zero_if_kernel(path, kernel)

    assert zeros.dtype == jnp.bfloat16
    assert zeros.sharding == sharding
    assert (
        collectives(lambda leaf: zero_if_kernel(path, leaf), kernel) == {}
    )
