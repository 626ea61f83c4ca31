"""The spec tree of a Linear's state."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from jax.sharding import NamedSharding, PartitionSpec as P

from shardbook import collectives
from shardbook.problems.state_to_sharded_layout import (
    pick_spec,
    state_to_sharded_layout,
)


@pytest.mark.parametrize("shape", [(4, 16), (1, 1), (7, 3)])
@pytest.mark.parametrize("features", [1, 10, 128])
def test_a_linear_has_two_specs(
    shape: tuple[int, int], features: int
) -> None:
    """Whatever the sizes, there is one for kernel and one for bias."""
    result = state_to_sharded_layout(0, jnp.ones(shape), features)

    assert result.shape == (1,)
    assert result.dtype == jnp.float32
    assert result == 2.0


def test_the_count_is_taken_from_the_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A Linear without a bias has one spec."""
    construct = nnx.Linear.__init__
    monkeypatch.setattr(
        nnx.Linear,
        "__init__",
        lambda *args, **kwargs: construct(*args, **kwargs, use_bias=False),
    )

    assert state_to_sharded_layout(0, jnp.ones((4, 16)), 8) == 1.0


def test_the_specs_place_the_state(mesh: jax.sharding.Mesh) -> None:
    """Each device gets its columns, and the outputs agree."""
    model = nnx.Linear(16, 8 * mesh.size, rngs=nnx.Rngs(0))
    x = jnp.asarray(np.random.default_rng(0).normal(size=(4, 16)))
    graphdef, state = nnx.split(model)

    specs = jax.tree.map(pick_spec, state)
    sharded = jax.tree.map(
        lambda leaf, spec: jax.device_put(leaf, NamedSharding(mesh, spec)),
        state,
        specs,
    )

    def forward(state: nnx.State, x: jax.Array) -> jax.Array:
        return nnx.merge(graphdef, state)(x)

    kernel, bias = sharded["kernel"], sharded["bias"]
    assert specs["kernel"].get_value() == P(None, "model")
    assert specs["bias"].get_value() == P("model")
    assert kernel.sharding.shard_shape(kernel.shape) == (16, 8)
    assert bias.sharding.shard_shape(bias.shape) == (8,)
    np.testing.assert_allclose(forward(sharded, x), model(x), atol=1e-5)
    assert collectives(forward, sharded, x) == {}
