"""Find the devices that hold an element of an array."""

import jax


def who_holds(array: jax.Array, index: tuple[int, ...]) -> list[int]:
    """Return the ids of the devices that hold an element.

    The sharding knows the answer, so JAX computes and copies nothing.

    Args:
        array: Array of any shape, on any devices.
        index: A position for each dimension of the array; a negative
            position counts from the end, as in NumPy.

    Returns:
        The ids in ascending order, one for each copy of the element.

    Raises:
        IndexError: If a position is out of bounds.
        ValueError: If the index has too few or too many positions.

    Example:
        On a mesh of 2 by 4, ``who_holds(array, (0, 0))`` is ``[0, 4]`` if
        the array is sharded as ``P(None, "model")``.

    References:
        JAX, *Parallel programming*,
        https://docs.jax.dev/en/latest/parallel.html
    """
    # --- solution ---
    slices_of = array.sharding.devices_indices_map(array.shape)
    holders: dict[jax.Device, tuple[slice, ...]] = {**slices_of}
    pairs = zip(index, array.shape, strict=True)
    for axis, (position, size) in enumerate(pairs):
        if not -size <= position < size:
            raise IndexError(f"{position} is outside of an axis of {size}")
        holders = {
            device: slices
            for device, slices in holders.items()
            if position % size in range(size)[slices[axis]]
        }
    return sorted(device.id for device in holders)
