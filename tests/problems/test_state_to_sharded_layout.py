"""The spec tree of a Linear's state."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from shardbook.problems.state_to_sharded_layout import (
    pick_spec,
    state_to_sharded_layout,
)
from shardscope import collectives


@pytest.mark.parametrize("shape", [(4, 16), (1, 1), (7, 3)])
@pytest.mark.parametrize("features", [1, 10, 128])
def test_a_linear_has_two_specs(
    shape: tuple[int, int], features: int
) -> None:
    """state_to_sharded_layout counts the kernel and the bias."""
    result = state_to_sharded_layout(0, jnp.ones(shape), features)

    assert result.shape == (1,)
    assert result.dtype == jnp.float32
    np.testing.assert_array_equal(result, [2.0])


def test_the_count_is_taken_from_the_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """state_to_sharded_layout counts one for a Linear without a bias."""
    construct = nnx.Linear.__init__
    monkeypatch.setattr(
        nnx.Linear,
        "__init__",
        lambda *args, **kwargs: construct(*args, **kwargs, use_bias=False),
    )

    assert state_to_sharded_layout(0, jnp.ones((4, 16)), 8) == 1.0


def test_each_device_has_its_columns(line: Mesh) -> None:
    """pick_spec shards kernel and bias as NumPy splits their columns."""
    model = nnx.Linear(16, 8 * line.size, rngs=nnx.Rngs(0))
    model.bias[...] = jnp.arange(8.0 * line.size)

    for array in (model.kernel[...], model.bias[...]):
        sharding = NamedSharding(line, pick_spec(array))
        shards = jax.device_put(array, sharding).addressable_shards
        columns = np.split(np.array(array), line.size, axis=-1)

        assert [shard.device for shard in shards] == list(line.devices)
        for shard, expected in zip(shards, columns, strict=True):
            np.testing.assert_array_equal(shard.data, expected)


def test_the_sharded_model_needs_no_collective(line: Mesh) -> None:
    """A state sharded by pick_spec gives x @ kernel + bias by itself."""
    model = nnx.Linear(16, 8 * line.size, rngs=nnx.Rngs(0))
    x = np.random.default_rng(0).normal(size=(4, 16)).astype(np.float32)
    expected = x @ np.array(model.kernel) + np.array(model.bias)
    graphdef, state = nnx.split(model)

    specs = jax.tree.map(pick_spec, state)
    shardings = jax.tree.map(lambda spec: NamedSharding(line, spec), specs)
    sharded = jax.device_put(state, shardings)

    def forward(state: nnx.State, x: jax.Array) -> jax.Array:
        return nnx.merge(graphdef, state)(x)

    assert specs["kernel"].get_value() == P(None, "model")
    assert specs["bias"].get_value() == P("model")
    np.testing.assert_allclose(forward(sharded, x), expected, atol=1e-5)
    assert collectives(forward, sharded, x) == {}
