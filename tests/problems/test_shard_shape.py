"""Shapes of shards as JAX makes them, and specs that are refused."""

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from shardbook import inputs
from shardbook.problems.shard_shape import shard_shape

COUNT = jax.device_count()


@pytest.mark.parametrize(
    ("shape", "spec"),
    [
        ((), P()),
        ((7,), P()),
        ((0, 3), P("model", None)),
        ((16, 24), P("data", "model")),
        ((16, 24), P(None, "data")),
        ((16, 24), P("model")),
        ((3, 16, 5), P(None, ("data", "model"))),
        ((16, 24, 5), P(("model", "data"), None)),
        ((16, 24), P(("model",), ("data",))),
        ((16, 24), P((), "model")),
    ],
)
def test_shards_have_this_shape(
    shape: tuple[int, ...], spec: P, mesh: Mesh
) -> None:
    """Each shard of an array that is laid out has the shape."""
    array = jax.device_put(np.zeros(shape), NamedSharding(mesh, spec))
    shapes = {shard.data.shape for shard in array.addressable_shards}

    assert shapes == {shard_shape(shape, spec, mesh)}


def test_one_shard_counted_by_hand() -> None:
    """A mesh of all devices divides as many times as it has devices."""
    grid = inputs.mesh_of(COUNT, 1)

    assert shard_shape((5 * COUNT, 3), P("data"), grid) == (5, 3)
    assert shard_shape((5 * COUNT, 3), P("model"), grid) == (5 * COUNT, 3)


@pytest.mark.parametrize(
    ("shape", "spec", "words"),
    [
        ((16, 16), P("data", None, None), "3 entries for 2 array axes"),
        ((), P(None), "1 entries for 0 array axes"),
        ((16, 16), P("modle"), r"'modle' .*\('data', 'model'\)"),
        ((16, 16), P(None, ("data", "modle")), "'modle'"),
        ((16, 16), P("data", "data"), "'data' occurs twice"),
        ((16, 16), P(("model", "model")), "'model' occurs twice"),
        ((16, 16), P("model", ("data", "model")), "'model' occurs twice"),
    ],
)
def test_specs_that_are_wrong(
    shape: tuple[int, ...], spec: P, words: str, mesh: Mesh
) -> None:
    """A spec that is wrong on any mesh is refused, and it says why."""
    with pytest.raises(ValueError, match=words):
        shard_shape(shape, spec, mesh)


def test_sizes_that_do_not_divide(mesh: Mesh) -> None:
    """What the devices do not divide is refused, in tuples too."""
    if COUNT == 1:
        pytest.skip("one device divides every size")
    for name, devices in mesh.shape.items():
        if devices > 1:
            words = f"the {devices} devices along '{name}' .* 33$"
            with pytest.raises(ValueError, match=words):
                shard_shape((16, 33), P(None, name), mesh)
    # Where both axes have several devices, each of them alone divides it.
    size = 3 * COUNT // 2
    with pytest.raises(ValueError, match=rf"{COUNT} devices .* {size}$"):
        shard_shape((size,), P(("data", "model")), mesh)
