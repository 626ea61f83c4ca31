"""A Linear whose kernel is zeroed in its state."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from jax.sharding import NamedSharding, PartitionSpec as P

from shardbook import collectives
from shardbook.problems.state_zero_kernel import (
    state_zero_kernel,
    zero_if_kernel,
)


@pytest.mark.parametrize("shape", [(4,), (1,), (2, 4), (2, 3, 4)])
@pytest.mark.parametrize("features", [1, 6])
def test_ones_for_every_row(shape: tuple[int, ...], features: int) -> None:
    """The result is ones, with the leading axes of x."""
    x = jnp.asarray(np.random.default_rng(0).normal(size=shape))

    result = state_zero_kernel(0, x, features)

    assert result.dtype == jnp.float32
    np.testing.assert_array_equal(result, np.ones((*shape[:-1], features)))


def test_the_example_of_the_source() -> None:
    """Four inputs, six outputs, seed 0: six ones."""
    result = state_zero_kernel(0.0, jnp.array([1.0, 2.0, 3.0, 4.0]), 6.0)

    np.testing.assert_array_equal(result, np.ones(6))


def test_zero_times_nan_is_nan() -> None:
    """The kernel is zeroed, not left out: a NaN in a row reaches it."""
    x = jnp.ones((2, 3)).at[1, 0].set(jnp.nan)

    result = state_zero_kernel(0, x, 4)

    np.testing.assert_array_equal(result[0], np.ones(4))
    assert np.isnan(result[1]).all()


class Named(nnx.Module):
    """A Module with "kernel" in more names than one."""

    def __init__(self) -> None:
        self.kernel_scale = nnx.Param(jnp.ones(3))
        self.kernel_block = nnx.Linear(2, 3, rngs=nnx.Rngs(0))
        self.kernel = nnx.Param(jnp.full((2, 2), jnp.inf))


def test_only_what_is_named_kernel() -> None:
    """A name that contains "kernel" is not the name "kernel"."""
    module = Named()
    module.kernel_block.bias[...] = jnp.ones(3)

    state = jax.tree_util.tree_map_with_path(
        zero_if_kernel, nnx.state(module)
    )

    np.testing.assert_array_equal(state["kernel_scale"][...], np.ones(3))
    np.testing.assert_array_equal(state["kernel_block"]["bias"][...], 1.0)
    np.testing.assert_array_equal(state["kernel_block"]["kernel"][...], 0.0)
    np.testing.assert_array_equal(state["kernel"][...], np.zeros((2, 2)))


def test_the_layout_is_kept(mesh: jax.sharding.Mesh) -> None:
    """Zeroing changes no sharding, and the devices need not talk."""
    sharding = NamedSharding(mesh, P(None, "model"))
    kernel = jax.device_put(jnp.ones((4, 2 * mesh.size)), sharding)

    path = (jax.tree_util.DictKey("kernel"),)
    zeros = zero_if_kernel(path, kernel)

    assert zeros.sharding == sharding
    assert (
        collectives(lambda leaf: zero_if_kernel(path, leaf), kernel) == {}
    )
