"""Edits of models on meshes of all the devices that there are."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P
from models import arrays, numbers

from shardbook import inputs
from shardbook.problems.edit_kernels import edit_kernels
from shardgrade.grading.attempt import solution
from shardgrade.grading.cases import Case, compiled_programs


def test_what_matches_and_nothing_else(mesh: Mesh) -> None:
    """Two kernels get new arrays like the old, and the rest stays."""
    model = inputs.placed(inputs.vision(16, 8), mesh)
    pattern = r"attention\.(query|key)\.kernel"
    before = arrays(model)
    variables = dict(nnx.to_flat_state(nnx.state(model)))

    edit_kernels(model, pattern, lambda k: jnp.where(k < 0, 0, k) + 1)

    after = arrays(model)
    changed = {path for path in after if after[path] is not before[path]}
    assert changed == {"attention.query.kernel", "attention.key.kernel"}
    for path in after:
        old, new = numbers(before[path]), numbers(after[path])
        expected = np.maximum(old, 0) + 1 if path in changed else old
        np.testing.assert_array_equal(new, expected)
        assert after[path].dtype == before[path].dtype
        assert after[path].sharding == before[path].sharding
    for path, variable in nnx.to_flat_state(nnx.state(model)):
        assert variable is variables[path]


def test_float32_becomes_bfloat16_again(mesh: Mesh) -> None:
    """The edit is computed in float32, and rounded once."""
    model = inputs.placed(inputs.mlp(8, 16, 8), mesh, "bfloat16")
    before = np.asarray(model.up.kernel[...])

    edit_kernels(model, r"up\.kernel", lambda k: k * np.float32(0.3))

    expected = before.astype(np.float32) * np.float32(0.3)
    assert model.up.kernel.dtype == jnp.bfloat16
    np.testing.assert_array_equal(
        np.asarray(model.up.kernel[...]), expected.astype(jnp.bfloat16)
    )


def test_metadata_and_type_stay() -> None:
    """A Variable of any type keeps its metadata."""
    model = inputs.placed(inputs.vision(16, 8), inputs.mesh_of(1, 1))
    mean = model.norm.mean
    mean.set_metadata(frozen=True)

    edit_kernels(model, ".*mean", lambda m: m + 1)

    assert model.norm.mean is mean
    assert isinstance(mean, nnx.BatchStat)
    assert mean.get_metadata("frozen")
    np.testing.assert_array_equal(np.asarray(mean[...]), np.ones(16))


def test_a_tied_variable_is_edited_once(mesh: Mesh) -> None:
    """What the model has twice is halved once, and stays one Variable."""
    model = inputs.twice(inputs.placed(inputs.mlp(8, 16, 8), mesh))
    before = np.asarray(model[1].up.kernel[...])

    edit_kernels(model, ".*kernel", lambda k: k / 2)

    assert model[0].up.kernel is model[1].up.kernel
    np.testing.assert_array_equal(
        np.asarray(model[0].up.kernel[...]), before / 2
    )


def test_each_device_makes_its_own_shards() -> None:
    """Equal kernels share a program, which makes a shard on each device."""
    count = jax.device_count()
    mlp = f"mlp(8, {128 * count}, 8)"
    model = f"placed(named(a={mlp}, b={mlp}), mesh_of(1, {count}))"
    call = f"edit_kernels({model}, '.*up.kernel', new_zeros)"

    (program,) = compiled_programs(solution("edit_kernels"), Case(call))

    assert program.collectives == {}
    assert program.memory.results == 8 * 128 * 4
    assert program.memory.total == program.memory.results


def test_nothing_is_copied(mesh: Mesh) -> None:
    """The arrays of edits are neither sent nor taken from the host."""
    model = inputs.placed(inputs.mlp(8, 16, 8), mesh)

    with (
        jax.transfer_guard_device_to_device("disallow_explicit"),
        jax.transfer_guard_host_to_device("disallow_explicit"),
    ):
        edit_kernels(model, ".*", inputs.new_zeros)
        edit_kernels(model, ".*", lambda k: k + 1)

    for array in arrays(model).values():
        np.testing.assert_array_equal(np.asarray(array), 1)


def test_the_old_arrays_are_not_deleted(line: Mesh) -> None:
    """A clone with the same arrays is as it was."""
    kernel = jnp.ones((4, 2 * line.size))
    kernel = jax.device_put(kernel, NamedSharding(line, P(None, "model")))
    model = nnx.Dict(kernel=nnx.Param(kernel))
    clone = nnx.clone(model)

    edit_kernels(model, "kernel", jnp.zeros_like)

    assert clone.kernel[...] is kernel
    np.testing.assert_array_equal(np.asarray(kernel), 1)
    np.testing.assert_array_equal(np.asarray(model.kernel[...]), 0)


@pytest.mark.parametrize("edit", [inputs.new_zeros, lambda k: k / 2])
def test_explicit_axes(edit: Callable[[jax.Array], jax.Array]) -> None:
    """The sharding stays on a mesh of Explicit axes too."""
    axes = (AxisType.Explicit,)
    mesh = jax.make_mesh((jax.device_count(),), ("model",), axes)
    kernel = jnp.ones((4, 2 * mesh.size))
    kernel = jax.device_put(kernel, NamedSharding(mesh, P(None, "model")))
    model = nnx.Dict(kernel=nnx.Param(kernel))

    edit_kernels(model, "kernel", edit)

    assert model.kernel[...].sharding == kernel.sharding
    assert jax.typeof(model.kernel[...]) == jax.typeof(kernel)


@pytest.mark.parametrize("pattern", ["kernel", "up", r"up\.kernal"])
def test_a_pattern_without_a_match(pattern: str) -> None:
    """A part of a path is no match, and the error has the pattern."""
    model = inputs.placed(inputs.mlp(8, 16, 8), inputs.mesh_of(1, 1))
    before = arrays(model)

    with pytest.raises(ValueError, match="no array has a path") as caught:
        edit_kernels(model, pattern, inputs.new_zeros)

    assert repr(pattern) in str(caught.value)
    assert all(arrays(model)[path] is before[path] for path in before)
