"""Clipping of shards, inside of ``jax.shard_map``."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from shardbook import inputs
from shardbook.inputs import GRADIENT_SPECS
from shardbook.problems.clip_local import clip_local
from shardscope import program


def clipped(tree: Any, specs: Any, mesh: Mesh, limit: float) -> Any:
    """Clip a tree on a mesh."""
    return inputs.in_shard_map(clip_local, specs, mesh, limit)(tree)


@pytest.mark.parametrize("limit", [1.0, 100.0])
def test_values_and_sharding(mesh: Mesh, limit: float) -> None:
    """The values are NumPy's, each laid out as before."""
    tree = inputs.gradients(2.0)
    arrays = {name: np.asarray(x, "float64") for name, x in tree.items()}
    norm = sum((x**2).sum() for x in arrays.values()) ** 0.5
    assert 1 < norm < 100

    found = clipped(tree, GRADIENT_SPECS, mesh, limit)

    assert found.keys() == tree.keys()
    for name, array in found.items():
        wanted = arrays[name] * min(1, limit / norm)
        np.testing.assert_allclose(array, wanted, rtol=1e-5)
        spec = NamedSharding(mesh, GRADIENT_SPECS[name])
        assert array.sharding.is_equivalent_to(spec, array.ndim)
        assert array.dtype == tree[name].dtype


def test_as_optax_does_it_on_one_device(mesh: Mesh) -> None:
    """bfloat16, zeros and NaN give what optax gives without a mesh."""
    clip = optax.clip_by_global_norm(1.0)
    trees = [
        inputs.gradients(0.0),
        inputs.gradients(1.0) | {"norm": jnp.full(40, jnp.nan)},
        inputs.gradients(1.0) | {"scale": jnp.float32(jnp.inf)},
    ]
    for tree in trees:
        found = clipped(tree, GRADIENT_SPECS, mesh, 1.0)
        wanted, _ = clip.update(tree, clip.init(tree))
        jax.tree.map(np.testing.assert_array_equal, found, wanted)


def test_bfloat16_is_squared_in_float32(mesh: Mesh) -> None:
    """The factor is that of float32, and the dtypes stay."""
    tree = inputs.gradients(1.0, "bfloat16")
    wide = jax.tree.map(lambda x: np.asarray(x, "float64"), tree)
    norm = sum((x**2).sum() for x in wide.values()) ** 0.5

    found = clipped(tree, GRADIENT_SPECS, mesh, 1.0)

    assert found["embed"].dtype == jnp.bfloat16
    np.testing.assert_allclose(
        found["norm"], wide["norm"] / norm, rtol=1e-5
    )
    np.testing.assert_allclose(
        np.asarray(found["up"], "f"), wide["up"] / norm, rtol=2**-7
    )


def test_bytes(mesh: Mesh) -> None:
    """One all-reduce of a scalar for each set of axes."""
    data, model = mesh.shape["data"], mesh.shape["model"]
    step = jax.jit(
        jax.shard_map(
            lambda tree: clip_local(
                tree, GRADIENT_SPECS, 1.0, ("data", "model")
            ),
            mesh=mesh,
            in_specs=(GRADIENT_SPECS,),
            out_specs=GRADIENT_SPECS,
        )
    )
    tree = inputs.laid_out(inputs.gradients(1.0), GRADIENT_SPECS, mesh)
    report = program(step, tree)

    assert {part.kind for part in report.communication} <= {"all-reduce"}
    assert report.sent() <= sum(
        8 for n in (data, model, mesh.size) if n > 1
    )


def test_a_mesh_with_one_axis(line: Mesh) -> None:
    """The axes are those of the mesh, whatever they are called."""
    specs = [P("model"), P()]
    step = jax.shard_map(
        lambda tree: clip_local(tree, specs, 1.0, ("model",)),
        mesh=line,
        in_specs=(specs,),
        out_specs=specs,
    )
    tree = [inputs.normal(16, 3), inputs.normal(5, seed=1)]

    found = jax.jit(step)(tree)

    assert optax.tree.norm(found) == pytest.approx(1, rel=1e-5)
