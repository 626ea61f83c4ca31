"""A checkpoint restored onto other meshes than it was saved from."""

import gc
from pathlib import Path

import jax
import numpy as np
import orbax.checkpoint as ocp
import pytest
from flax import nnx
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from shardbook import inputs
from shardbook.problems.restore_onto import restore_onto

RULES = (
    (r"layers\.\d+\.up\.kernel", P(None, "model")),
    (r".*kernel", P("data", "model")),
    (r".*", P()),
)
SPECS = {"up": P(None, "model"), "down": P("data", "model")}


@pytest.fixture(scope="module")
def saved(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[str, nnx.Module]:
    """Save a model from one device: the path, and the model."""
    model = inputs.dropout_mlp(16, 40, 24)
    model(inputs.normal(2, 16))
    path = str(tmp_path_factory.mktemp("saved") / "model")
    with ocp.StandardCheckpointer() as saver:
        saver.save(path, nnx.state(model))
    return path, model


def build() -> nnx.Module:
    """Build a model with other values."""
    return inputs.dropout_mlp(16, 40, 24, seed=1)


def test_values_and_layout(
    saved: tuple[str, nnx.Module], mesh: Mesh
) -> None:
    """Each device has its slice of what was saved, by the first rule."""
    path, model = saved

    with jax.transfer_guard_device_to_device("disallow_explicit"):
        restored = restore_onto(path, build, mesh, RULES)

    assert nnx.graphdef(restored) == nnx.graphdef(model)
    for name, spec in SPECS.items():
        kernel = getattr(restored.layers[0], name).kernel[...]
        expected = np.asarray(getattr(model.layers[0], name).kernel)
        assert kernel.sharding == NamedSharding(mesh, spec)
        for shard in kernel.addressable_shards:
            np.testing.assert_array_equal(
                shard.data, expected[shard.index], strict=True
            )
    everywhere = NamedSharding(mesh, P())
    for mine, theirs in (
        (restored.layers[0].up.bias, model.layers[0].up.bias),
        (restored.layers[1].rngs.count, model.layers[1].rngs.count),
    ):
        assert mine.sharding == everywhere
        np.testing.assert_array_equal(mine, theirs, strict=True)
    keys = [each.layers[1].rngs.key[...] for each in (restored, model)]
    assert keys[0].sharding == everywhere
    np.testing.assert_array_equal(*map(jax.random.key_data, keys))
    assert restored.layers[1].rngs.count[...] == 1


def test_a_checkpoint_from_another_mesh(mesh: Mesh) -> None:
    """The mesh that it was saved from leaves no trace."""
    path = inputs.checkpoint(inputs.dropout_mlp, 16, 40, 24)
    large = inputs.too_large(inputs.dropout_mlp, 16, 40, 24, 1)
    model = inputs.dropout_mlp(16, 40, 24)

    restored = restore_onto(path, large, mesh, RULES)

    for mine, theirs in zip(
        jax.tree.leaves(nnx.state(restored, nnx.Param)),
        jax.tree.leaves(nnx.state(model, nnx.Param)),
        strict=True,
    ):
        assert mine.sharding.mesh == mesh
        np.testing.assert_array_equal(mine, theirs, strict=True)


def test_the_dtypes_are_those_of_the_model(
    saved: tuple[str, nnx.Module],
) -> None:
    """What was saved is converted as it is read."""
    path, model = saved

    def half() -> nnx.Module:
        return jax.tree.map(
            lambda leaf: (
                leaf.astype("bfloat16") if leaf.dtype == "float32" else leaf
            ),
            build(),
        )

    restored = restore_onto(path, half, inputs.mesh_of(1, 1), RULES)

    kernel = np.asarray(model.layers[0].up.kernel).astype("bfloat16")
    np.testing.assert_array_equal(
        restored.layers[0].up.kernel, kernel, strict=True
    )


@pytest.mark.parametrize(
    "other",
    [
        lambda: inputs.dropout_mlp(16, 48, 24),
        lambda: inputs.mlp(16, 40, 24),
        lambda: nnx.List([build()]),
    ],
    ids=["another shape", "other names", "a level more"],
)
@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)
def test_another_model_is_refused(
    saved: tuple[str, nnx.Module], other: object
) -> None:
    """Names and shapes have to be those of the checkpoint."""
    with pytest.raises(ValueError, match=r"not compatible|do not match"):
        restore_onto(saved[0], other, inputs.mesh_of(1, 1), RULES)
    # What Orbax had begun to read says so as it is freed.
    gc.collect()


def test_an_array_without_a_rule(saved: tuple[str, nnx.Module]) -> None:
    """The message has the path of an array that no rule matches."""
    with pytest.raises(ValueError, match=r"layers\.0\.down\.bias"):
        restore_onto(saved[0], build, inputs.mesh_of(1, 1), RULES[:-1])


def test_a_damaged_checkpoint_is_refused(
    saved: tuple[str, nnx.Module], tmp_path: Path
) -> None:
    """A checkpoint of which a part is missing raises an error."""
    mesh = inputs.mesh_of(1, 1)

    with pytest.raises(ValueError, match=r"Unterminated|Expecting"):
        restore_onto(inputs.truncated(saved[0]), build, mesh, RULES)
    with pytest.raises(FileNotFoundError, match="not found"):
        restore_onto(str(tmp_path / "nothing"), build, mesh, RULES)
