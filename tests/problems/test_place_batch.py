"""A batch of NumPy arrays on meshes of all the devices that there are."""

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from shardbook import inputs
from shardbook.problems.place_batch import place_batch


def test_rows_of_each_device(mesh: Mesh) -> None:
    """A device has its rows of each array, and they come from the host."""
    batch = {
        "images": np.arange(960, dtype=np.uint8).reshape(16, 5, 4, 3),
        "labels": (np.arange(32, dtype=np.int32), np.float32(range(8))),
    }

    with jax.transfer_guard_device_to_device("disallow_explicit"):
        placed = place_batch(batch, mesh)

    assert jax.tree.structure(placed) == jax.tree.structure(batch)
    for array, leaf in zip(
        jax.tree.leaves(placed), jax.tree.leaves(batch), strict=True
    ):
        rows = len(leaf) // mesh.shape["data"]
        assert array.dtype == leaf.dtype
        assert array.committed
        assert array.sharding == NamedSharding(mesh, P("data"))
        for shard in array.addressable_shards:
            place, _ = np.argwhere(mesh.devices == shard.device)[0]
            expected = leaf[place * rows : (place + 1) * rows]
            np.testing.assert_array_equal(shard.data, expected)


@pytest.mark.parametrize("dtype", [np.float64, np.int64])
def test_dtypes_of_64_bits(dtype: type) -> None:
    """NumPy's defaults of 64 bits become JAX's of 32."""
    placed = place_batch(np.ones(16, dtype), inputs.mesh_of(1, 1))

    assert placed.dtype.itemsize == 4


def test_sizes_that_do_not_divide() -> None:
    """A batch with a remainder, or without an axis, is refused."""
    count = jax.device_count()
    mesh = inputs.mesh_of(count, 1)

    if count > 1:
        with pytest.raises(ValueError, match="evenly divide"):
            place_batch(inputs.numpy_batch(2 * count - 1, 4), mesh)
    with pytest.raises(ValueError, match="rank at least 1"):
        place_batch(np.float32(1), mesh)
