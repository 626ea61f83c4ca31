"""The average of a sharded model, on meshes of all the devices."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from jax.sharding import Mesh, PartitionSpec as P
from models import arrays

from shardbook import inputs
from shardbook.problems.average_weights import average_weights
from shardscope import program

# The kernel of "head" is the embedding.
WEIGHTS = {
    "embed.embedding",
    "head.bias",
    "norm.bias",
    "norm.scale",
    "up.bias",
    "up.kernel",
}


def test_four_averages_are_those_of_numpy(mesh: Mesh) -> None:
    """Averages start as the weights, and are computed in float32."""
    model = inputs.assorted(mesh)
    average, expected = None, {}
    # At first, the decay does not matter.
    for decay in (0.5, 0.9, 0.9, 0.25):
        found = arrays(model)
        weights = {name: np.asarray(found[name], float) for name in WEIGHTS}
        expected = {
            name: decay * expected.get(name, value) + (1 - decay) * value
            for name, value in weights.items()
        }

        average = average_weights(average, model, decay)

        inputs.train(model)
        got = {".".join(k): v for k, v in nnx.to_flat_state(average)}
        assert got.keys() == WEIGHTS
        for name, leaf in got.items():
            assert leaf.dtype == jnp.float32
            np.testing.assert_allclose(
                leaf, expected[name], rtol=1e-5, atol=1e-6
            )


def test_an_average_is_sharded_like_its_weight(mesh: Mesh) -> None:
    """No call moves an average, and the model stays as it is."""
    model = inputs.assorted(mesh)
    before = jax.tree.leaves(nnx.state(model))

    average = None
    for _ in range(3):
        average = average_weights(average, model, 0.9)

    weights = arrays(model)
    for path, leaf in nnx.to_flat_state(average):
        weight = weights[".".join(path)]
        assert leaf.committed
        assert leaf.sharding.is_equivalent_to(weight.sharding, leaf.ndim)
    after = jax.tree.leaves(nnx.state(model))
    assert all(a is b for a, b in zip(before, after, strict=True))


def test_memory(mesh: Mesh) -> None:
    """An average shares no memory, and is donated to the next."""
    model = inputs.assorted(mesh)
    average = average_weights(None, model, 0.9)
    inputs.train(model)
    old = jax.tree.leaves(average)
    assert not any(leaf.is_deleted() for leaf in old)

    report = program(average_weights, average, model, 0.9)
    average_weights(average, model, 0.9)

    assert all(leaf.is_deleted() for leaf in old)
    assert report.collectives == {}
    assert report.transfers == {}


def test_calls_compile_a_copy_and_an_average(mesh: Mesh) -> None:
    """Another decay needs no other program."""
    compilations = []

    def listen(event: str, seconds: float, **details: Any) -> None:
        if event.endswith("backend_compile_duration"):
            compilations.append(seconds)

    # A model of another size was not averaged before.
    rngs = nnx.Rngs(0)
    model = nnx.Linear(mesh.shape["data"], 24, rngs=rngs)
    nnx.update(model, inputs.laid_out(nnx.state(model), P(), mesh))
    jax.clear_caches()
    jax.monitoring.register_event_duration_secs_listener(listen)
    counts, average = [], None
    try:
        with jax.transfer_guard_device_to_device("disallow_explicit"):
            for decay in (0.9, 0.9, 0.9, 0.25):
                average = average_weights(average, model, decay)
                counts.append(len(compilations))
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)

    assert counts == [1, 2, 2, 2]


def test_annotated_variables(mesh: Mesh) -> None:
    """Variables that name mesh axes need no mesh around the call."""
    with jax.set_mesh(mesh):
        model = nnx.Linear(
            16,
            16,
            kernel_metadata={"out_sharding": (None, "model")},
            rngs=nnx.Rngs(0),
        )

    average = average_weights(None, model, 0.9)
    average = average_weights(average, model, 0.9)

    found, wanted = average["kernel"].sharding, model.kernel.sharding
    assert found.is_equivalent_to(wanted, 2)


def test_the_average_replaces_the_weights_of_a_clone(mesh: Mesh) -> None:
    """An average can be written to a copy of the model."""
    model = inputs.counted_mlp(mesh, sharded=True)
    x = inputs.normal(4, 16)
    expected = model(x)
    average = average_weights(None, model, 0.9)
    inputs.train(model)

    copy = nnx.clone(model)
    nnx.update(copy, average)

    np.testing.assert_allclose(copy(x), expected, rtol=1e-5)
    assert np.abs(model(x) - expected).max() > 1


def test_a_model_without_weights() -> None:
    """There is nothing to average in a Dropout."""
    model = nnx.Dropout(0.1, rngs=nnx.Rngs(0))

    average = average_weights(None, model, 0.9)

    assert jax.tree.leaves(average_weights(average, model, 0.9)) == []


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16])
def test_small_steps_are_not_lost(mesh: Mesh, dtype: Any) -> None:
    """After 1,000 steps, 0.999 has moved by 63 percent."""
    model = inputs.linear(1, 1)
    model.kernel[...] = jnp.ones((1, 1), dtype)
    average = average_weights(None, model, 0.999)
    model.kernel[...] = jnp.full((1, 1), 2, dtype)

    for _ in range(1000):
        average = average_weights(average, model, 0.999)

    expected = 2 - 0.999**1000
    np.testing.assert_allclose(average["kernel"], [[expected]], rtol=1e-4)
