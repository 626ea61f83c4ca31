"""An optimizer of a sharded model, on meshes of all the devices."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from shardbook import inputs
from shardbook.problems.optimizer_like_params import optimizer_like_params
from shardscope import layout

SPECS = {
    "up.kernel": P(None, "model"),
    "up.bias": P(),
    "down.kernel": P("model"),
    "down.bias": P("data"),
}


def arrays(tree: Any) -> dict[str, jax.Array]:
    """Give the arrays of a Module or an optimizer by their paths."""
    return {
        jax.tree_util.keystr(path, simple=True, separator=".").removesuffix(
            ".value"
        ): leaf
        for path, leaf in jax.tree.leaves_with_path(tree)
    }


@pytest.mark.parametrize(
    ("tx", "moments"),
    [
        (inputs.adam, ("opt_state.0.mu.", "opt_state.0.nu.")),
        (inputs.momentum, ("opt_state.0.trace.",)),
        (inputs.from_shapes, ("opt_state.",)),
        (inputs.adafactor, ()),
    ],
)
def test_layouts(mesh: Mesh, tx: Any, moments: tuple[str, ...]) -> None:
    """A moment is laid out as its parameter, all else is replicated."""
    model = inputs.counted_mlp(mesh, sharded=True)

    found = arrays(optimizer_like_params(model, tx(), mesh))

    expected = {
        each + name: SPECS[name] for each in moments for name in SPECS
    }
    if tx is inputs.adafactor:
        expected["opt_state.0.v.down.bias"] = SPECS["down.bias"]
    assert expected.keys() < found.keys()
    for path, array in found.items():
        spec = NamedSharding(mesh, expected.get(path, P()))
        assert array.committed
        assert array.sharding.is_equivalent_to(spec, array.ndim), path


def test_bytes(mesh: Mesh) -> None:
    """Adam takes the bytes of the parameters twice, and eight more."""
    model = inputs.counted_mlp(mesh, sharded=True)
    params = layout(nnx.state(model, nnx.Param)).bytes_per_device

    optimizer = optimizer_like_params(model, inputs.adam(), mesh)

    assert layout(optimizer).bytes_per_device == 2 * params + 8


def test_it_trains_as_adam_and_is_traced_once(mesh: Mesh) -> None:
    """Two steps are those of Adam in NumPy, by one trace."""
    model = inputs.counted_mlp(mesh, sharded=True)
    optimizer = optimizer_like_params(model, optax.adam(0.1), mesh)
    before = np.asarray(model.up.kernel)
    gradient = np.cos(np.arange(256.0)).reshape(16, 16).astype(np.float32)
    traces = []

    @nnx.jit
    def step(model: nnx.Module, optimizer: Any, gradient: Any) -> None:
        traces.append(1)
        grads = jax.tree.map(jnp.zeros_like, nnx.state(model, nnx.Param))
        grads["up"]["kernel"][...] = gradient
        optimizer.update(model, grads)

    everywhere = NamedSharding(mesh, P())
    for _ in range(2):
        step(model, optimizer, jax.device_put(gradient, everywhere))

    # With a constant gradient, Adam moves by the learning rate.
    expected = before - 2 * 0.1 * np.sign(gradient)
    np.testing.assert_allclose(model.up.kernel, expected, atol=1e-3)
    assert optimizer.step[...] == 2
    assert len(traces) == 1
    columns = NamedSharding(mesh, SPECS["up.kernel"])
    assert model.up.kernel.sharding.is_equivalent_to(columns, 2)


def test_annotated_variables(mesh: Mesh) -> None:
    """A model whose Variables name mesh axes needs no mesh around it."""
    metadata = {"out_sharding": (None, "model")}
    with jax.set_mesh(mesh):
        model = nnx.Linear(
            16, 16, kernel_metadata=metadata, rngs=nnx.Rngs(0)
        )

    found = arrays(optimizer_like_params(model, inputs.adam(), mesh))

    spec = found["opt_state.0.mu.kernel"].sharding.spec
    assert spec == P(None, "model")


def test_shared_variables(mesh: Mesh) -> None:
    """A Variable that a model has twice has each moment once."""
    model = inputs.counted_mlp(mesh, sharded=True)
    model.up.shared = model.down.kernel

    found = arrays(optimizer_like_params(model, inputs.momentum(), mesh))

    assert len(found) == 5


def test_paths_that_end_alike() -> None:
    """The longest path counts, where one ends as another."""
    mesh = inputs.mesh_of(1, jax.device_count())
    inner = inputs.counted_mlp(mesh, sharded=True)
    model = inputs.counted_mlp(mesh)
    model.up.up = inner.up

    found = arrays(optimizer_like_params(model, inputs.momentum(), mesh))

    outer = found["opt_state.0.trace.up.kernel"]
    assert outer.sharding.is_fully_replicated
    within = found["opt_state.0.trace.up.up.kernel"]
    assert within.sharding.spec == P(None, "model")
