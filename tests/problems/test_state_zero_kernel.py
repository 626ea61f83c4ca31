"""A Linear whose kernel is set to zeros in its state."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from shardbook import collectives
from shardbook.problems.state_zero_kernel import (
    state_zero_kernel,
    zero_if_kernel,
)


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

    state = jax.tree_util.tree_map_with_path(
        zero_if_kernel, nnx.state(module)
    )

    np.testing.assert_array_equal(state["kernel_scale"][...], np.ones(3))
    np.testing.assert_array_equal(state["kernel_block"]["bias"][...], 1.0)
    np.testing.assert_array_equal(state["kernel_block"]["kernel"][...], 0.0)
    np.testing.assert_array_equal(state["kernel"][...], np.zeros((2, 2)))


def test_the_sharding_is_kept(mesh: Mesh) -> None:
    """zero_if_kernel keeps the sharding of a kernel, with no collective."""
    sharding = NamedSharding(mesh, P(None, "model"))
    kernel = jax.device_put(jnp.ones((4, 2 * mesh.size)), sharding)

    path = (jax.tree_util.DictKey("kernel"),)
    zeros = zero_if_kernel(path, kernel)

    assert zeros.sharding == sharding
    assert (
        collectives(lambda leaf: zero_if_kernel(path, leaf), kernel) == {}
    )
