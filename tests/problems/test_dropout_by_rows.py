"""Dropout inside shard_map, with one mask on meshes of all devices."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from shardbook import inputs
from shardbook.problems.dropout_by_rows import dropout_by_rows
from shardscope import program

SHAPE = (8, 16, 8)
SEED, RATE = 3, 0.3
ROTATIONS = (13, 15, 26, 6), (17, 29, 16, 24)
SPECS = (
    P("data", None, "model"),
    P("model", "data"),
    P(None, ("data", "model")),
    P(None, ("model", "data"), None),
    P("data"),
    P(None, None, "model"),
    P(),
)


def threefry(key: tuple[Any, Any], first: Any, second: Any) -> Any:
    """Hash pairs of 32-bit numbers, in NumPy."""
    keys = *key, key[0] ^ key[1] ^ np.uint32(0x1BD11BDA)
    x, y = first + keys[0], second + keys[1]
    for step in range(5):
        for by in ROTATIONS[step % 2]:
            x = x + y
            y = x ^ (y << np.uint32(by) | y >> np.uint32(32 - by))
        x = x + keys[(step + 1) % 3]
        y = y + keys[(step + 2) % 3] + np.uint32(step + 1)
    return x, y


def mask(shape: tuple[int, ...], rate: float, seed: int = SEED) -> Any:
    """Tell which entries are kept: a key for each index, in NumPy."""
    zeros = np.zeros(shape, np.uint32)
    key = zeros, zeros + np.uint32(seed)
    for index in np.indices(shape, np.uint32):
        key = threefry(key, zeros, index)
    first, second = threefry(key, zeros, zeros)
    bits = (first ^ second) >> np.uint32(9) | np.uint32(0x3F800000)
    return bits.view(np.float32) - 1 < np.float32(1 - rate)


def array(*shape: int) -> Any:
    """Give x, in NumPy."""
    return np.asarray(inputs.normal(*(shape or SHAPE)))


def dropped(mesh: Mesh, spec: P, x: Any, rate: float = RATE) -> Any:
    """Give the result, and the gradient of its sum."""
    return inputs.in_blocks(dropout_by_rows, rate, spec, mesh)(
        x, inputs.random_key(SEED)
    )


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_a_mask_by_the_place_of_an_entry(mesh: Mesh, spec: P) -> None:
    """The mask is NumPy's on each mesh; the gradient passes through it."""
    x = array()
    kept = mask(SHAPE, RATE)

    y, gradient = dropped(mesh, spec, x)

    expected = np.where(kept, x / np.float32(1 - RATE), 0)
    np.testing.assert_allclose(y, expected, rtol=1e-6)
    slope = 1 / (1 - RATE)
    np.testing.assert_allclose(gradient, kept * slope, rtol=1e-6)
    for found in (y, gradient):
        assert found.dtype == np.float32
        wanted = NamedSharding(mesh, spec)
        assert found.sharding.is_equivalent_to(wanted, 3)


def test_a_matrix(mesh: Mesh) -> None:
    """Rows and columns are enough, and need not be square."""
    x = array(32, 24)

    y, _ = dropped(mesh, P("model", "data"), x)

    kept = mask((32, 24), RATE)
    expected = np.where(kept, x / np.float32(1 - RATE), 0)
    np.testing.assert_allclose(y, expected, rtol=1e-6)


def test_entries_are_independent() -> None:
    """The mask itself, without a mesh, has the rate, and no two rows."""
    kept = mask((256, 512), 0.1)
    rows = np.unique(kept, axis=0)
    columns = np.unique(kept, axis=1)
    both = (kept[:, 1:] & kept[:, :-1]).mean()

    assert abs(kept.mean() - 0.9) < 0.005
    assert abs(both - 0.81) < 0.01
    assert rows.shape == columns.shape == kept.shape


def test_copies_are_the_same_without_the_check(mesh: Mesh) -> None:
    """Devices with the same slice have the same mask, unchecked too."""
    drop = inputs.in_blocks(
        dropout_by_rows, RATE, P("data"), mesh, check_vma=False
    )
    y, _ = drop(array(), inputs.random_key(SEED))
    kept = mask(SHAPE, RATE)

    assert len(y.addressable_shards) == jax.device_count()
    for shard in y.addressable_shards:
        np.testing.assert_array_equal(shard.data != 0, kept[shard.index])


def test_bfloat16(mesh: Mesh) -> None:
    """A result has the dtype of x, and the mask doesn't depend on it."""
    x = jnp.asarray(array(), jnp.bfloat16)

    y, gradient = dropped(mesh, P("data"), x)

    assert y.dtype == gradient.dtype == jnp.bfloat16
    np.testing.assert_array_equal(np.float32(y) != 0, mask(SHAPE, RATE))


def test_a_rate_of_0(mesh: Mesh) -> None:
    """Nothing is dropped, and x comes back."""
    y, gradient = dropped(mesh, P("data"), array(), 0.0)

    np.testing.assert_array_equal(y, array())
    assert (gradient == 1).all()


def test_what_the_devices_do(mesh: Mesh) -> None:
    """They send nothing, and each needs memory for its block alone."""

    def report(spec: P) -> Any:
        drop = inputs.in_blocks(dropout_by_rows, RATE, spec, mesh)
        x = inputs.laid_out(array(32, 64, 64), spec, mesh)
        return program(drop, x, inputs.random_key(SEED))

    sharded, whole = report(P("data", None, "model")), report(P())

    assert sharded.sent() == whole.sent() == 0
    assert sharded.collectives == whole.collectives == {}
    count = jax.device_count()
    most = whole.memory.temporaries / count
    assert sharded.memory.temporaries < 1.1 * most + 1024


def test_one_key_for_each_layer() -> None:
    """Keys with the numbers of layers folded in have other masks."""
    mesh = inputs.mesh_of(jax.device_count(), 1)
    drop = inputs.in_blocks(dropout_by_rows, 0.5, P("data"), mesh)
    key = inputs.random_key(SEED)
    one, two = (
        drop(array(64, 64), jax.random.fold_in(key, layer))[0] != 0
        for layer in range(2)
    )

    assert 0.4 < (one == two).mean() < 0.6


def test_sizes_that_do_not_divide() -> None:
    """A dimension that leaves a remainder is refused by jax."""
    if jax.device_count() == 1:
        pytest.skip("one device divides every size")
    mesh = inputs.mesh_of(jax.device_count(), 1)

    with pytest.raises(ValueError, match="evenly divi"):
        dropped(mesh, P("data"), array(7, 8))


def test_outside_of_shard_map() -> None:
    """Without a mesh there is no axis of that name."""
    with pytest.raises(NameError, match="data"):
        dropout_by_rows(inputs.random_key(0), array(), RATE, P("data"))
