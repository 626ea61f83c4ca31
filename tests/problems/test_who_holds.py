"""Devices that hold an element, found again by its value."""

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from shardbook import inputs
from shardbook.problems.who_holds import who_holds

COUNT = jax.device_count()
VALUES = np.arange(16 * 8).reshape(16, 8)
SPECS = [
    P(),
    P("data"),
    P(None, "data"),
    P("model", "data"),
    P(("data", "model")),
    P(None, ("model", "data")),
]


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("spec", SPECS)
def test_the_shards_that_have_its_value(
    spec: P, turned: bool, mesh: Mesh
) -> None:
    """For each element it names the devices whose shard has its value."""
    grid = inputs.backwards(mesh) if turned else mesh
    array = jax.device_put(VALUES, NamedSharding(grid, spec))
    shards = {
        shard.device.id: np.asarray(shard.data)
        for shard in array.addressable_shards
    }
    for index, value in np.ndenumerate(VALUES):
        holders = [i for i in sorted(shards) if value in shards[i]]
        from_the_end = (index[0] - 16, index[1] - 8)

        assert who_holds(array, index) == holders
        assert who_holds(array, from_the_end) == holders


def test_arrays_on_one_device() -> None:
    """An array that is on no mesh is whole on its device."""
    last = jax.devices()[-1]

    assert who_holds(jax.numpy.zeros(4), (2,)) == [0]
    assert who_holds(jax.device_put(VALUES, last), (-1, 0)) == [last.id]


def test_scalars_are_replicated(mesh: Mesh) -> None:
    """A scalar has an index without positions, and is on all devices."""
    scalar = jax.device_put(1.0, NamedSharding(mesh, P()))

    assert who_holds(scalar, ()) == [*range(COUNT)]


def test_no_value_is_read(mesh: Mesh) -> None:
    """An array whose memory was given back has its sharding still."""
    array = jax.device_put(VALUES, NamedSharding(mesh, P("data")))
    before = who_holds(array, (3, 4))
    array.delete()

    assert who_holds(array, (3, 4)) == before


@pytest.mark.parametrize("index", [(16, 0), (0, 8), (-17, 0), (15, -9)])
def test_positions_outside(index: tuple[int, int], mesh: Mesh) -> None:
    """A position outside of its axis is refused, with the axis's size."""
    array = jax.device_put(VALUES, NamedSharding(mesh, P("data")))

    with pytest.raises(IndexError, match=r"-?\d+ is outside .* (16|8)$"):
        who_holds(array, index)


def test_an_axis_without_elements(mesh: Mesh) -> None:
    """No device holds what is not there."""
    empty = jax.device_put(np.zeros((0, 3)), NamedSharding(mesh, P()))

    with pytest.raises(IndexError, match="0 is outside of an axis of 0"):
        who_holds(empty, (0, 0))


@pytest.mark.parametrize("index", [(), (0,), (0, 0, 0)])
def test_another_number_of_positions(index: tuple[int, ...]) -> None:
    """An index has a position for each axis."""
    with pytest.raises(ValueError, match="zip"):
        who_holds(jax.numpy.zeros((2, 2)), index)
