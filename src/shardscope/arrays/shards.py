"""Where the shards of an array are: devices, slices and mesh axes."""

import math
import re
from collections.abc import Sequence
from functools import cache
from typing import Any, TypeAlias

import jax
import numpy as np
from jax.sharding import (
    AbstractMesh,
    NamedSharding,
    Sharding,
)

# A device; of an abstract mesh, which has none, the position in it.
Device: TypeAlias = jax.Device | int


# How far the ids of CPU devices of one process are from those of the next.
CPUS_OF_PROCESS = 2048
# The start and stop of a part of an array, along each axis.
Slice = tuple[tuple[int, int], ...]


class _OfProcess(int):
    """The id of a CPU device among those of several processes.

    It is written as ``p1.0`` for the first device of process 1, because
    the number itself, 2048, says nothing.
    """

    def __str__(self) -> str:
        process, device = divmod(self, CPUS_OF_PROCESS)
        return f"p{process}.{device}"


def device_id(device: Device) -> int:
    """Give the id of a device, or its position in an abstract mesh."""
    if isinstance(device, int):
        return device
    number: int = device.id
    # A mesh can also be made of places that only look like devices.
    if isinstance(device, jax.Device) and device.platform == "cpu":
        client = device.client
        if client.device_count() > client.local_device_count():
            return _OfProcess(number)
    return number


def devices_in(sharding: Sharding) -> Sequence[Device]:
    """List the devices of a sharding, in the order of its mesh."""
    match sharding:
        case NamedSharding(mesh=AbstractMesh() as mesh):
            return range(mesh.size)
        case NamedSharding(mesh=mesh):
            return list(mesh.devices.flat)
        case _:
            return list(sharding.device_set)


def only_holder(sharding: Sharding) -> jax.Device | None:
    """Give the device that alone has the values, if JAX says that all do.

    The result of a callback under jit has such a sharding. JAX takes it
    for replicated, but the other devices hold zeros.
    """
    if isinstance(sharding, NamedSharding):
        return None
    # The class is private, but not its name in print.
    found = re.search(r"maximal device=(\d+)", repr(sharding))
    if found is None:
        return None
    return list(sharding.devices_indices_map(()))[int(found[1])]


def slices_of(
    sharding: Sharding, shape: tuple[int, ...]
) -> dict[Any, Slice]:
    """Give the slice of an array that each device holds."""
    if not isinstance(sharding, NamedSharding):
        only = only_holder(sharding)
        return {
            device: tuple(
                part.indices(size)[:2]
                for part, size in zip(index, shape, strict=True)
            )
            for device, index in sharding.devices_indices_map(shape).items()
            if only in (None, device)
        }
    # By hand, for JAX does it for neither an abstract mesh nor a sum that
    # is not reduced.
    sizes = sharding.mesh.shape
    shard_shape = sharding.shard_shape(shape)
    held = {}
    for device, place in zip(
        devices_in(sharding), np.ndindex(*sizes.values()), strict=True
    ):
        index = dict(zip(sizes, place, strict=True))
        starts = [0] * len(shape)
        for axis, names in enumerate(mesh_axes(sharding, len(shape))):
            for name in names:
                starts[axis] = starts[axis] * sizes[name] + index[name]
        held[device] = tuple(
            (start * size, (start + 1) * size)
            for start, size in zip(starts, shard_shape, strict=True)
        )
    return held


def holders(
    sharding: Sharding, shape: tuple[int, ...]
) -> dict[Slice, tuple[int, ...]]:
    """Give for each slice of an array the ids of the devices that hold it.

    Slices and ids are in ascending order.
    """
    held: dict[Slice, list[int]] = {}
    for device, part in slices_of(sharding, shape).items():
        held.setdefault(part, []).append(device_id(device))
    return {part: tuple(sorted(held[part])) for part in sorted(held)}


def describe_holders(
    sharding: Sharding, shape: tuple[int, ...]
) -> list[str]:
    """Say of each slice of an array which devices hold it, in a line."""
    values = values_of(sharding)
    different = f", unreduced: {values} different values"
    lines = []
    for part, ids in holders(sharding, shape).items():
        where = ", ".join(f"{start}:{stop}" for start, stop in part)
        noun = "device" if len(ids) == 1 else "devices"
        line = f"  {noun} {ranges(ids)}: [{where}]"
        lines.append(line + different * (values > 1))
    return lines


def ranges(ids: Sequence[int]) -> str:
    """Write ``0 1 2 3 6`` as ``0-3 6``."""
    runs: list[list[int]] = []
    for number in ids:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return " ".join(
        f"{run[0]}-{run[-1]}" if len(run) > 2 else " ".join(map(str, run))
        for run in runs
    )


def values_of(sharding: Sharding) -> int:
    """Count the values that the devices hold of one slice.

    One, unless the array is unreduced: devices along these mesh axes then
    hold what has still to be added up.
    """
    if not isinstance(sharding, NamedSharding):
        return 1
    sizes = sharding.mesh.shape
    return math.prod(sizes[name] for name in sharding.spec.unreduced)


@cache
def mesh_axes(sharding: Any, ndim: int) -> tuple[tuple[str, ...], ...]:
    """Give for each axis of an array the mesh axes that divide it.

    Without what makes no difference: axes of size one.
    """
    if not isinstance(sharding, NamedSharding):
        return ((),) * ndim
    sizes = dict(sharding.mesh.shape)
    found = []
    # What has "unreduced" is no tuple to be read.
    for entry in sharding.spec.partitions:
        if isinstance(entry, str):
            entry = (entry,)
        # What is left to the compiler divides nothing yet.
        names = entry if isinstance(entry, tuple) else ()
        found.append(tuple(n for n in names if sizes.get(n, 1) > 1))
    return (*found, *[()] * (ndim - len(found)))
