"""How one array is laid out."""

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
from jax.sharding import (
    AbstractMesh,
    NamedSharding,
    PartitionSpec,
    Sharding,
)

from shardscope.arrays.shards import (
    Device,
    device_id,
    devices_in,
    mesh_axes,
    only_holder,
)


@dataclass(frozen=True, slots=True)
class LeafLayout:
    """How one array is sharded.

    Attributes:
        path: The names that lead to the array, joined by dots.
        shape: The shape of the whole array.
        dtype: The name of its dtype.
        bits: Bits of one element: 4 for int4, of which two share a byte.
        sharding: Its sharding, or ``None`` if the array is on no device,
            like a NumPy array, a Python number, an abstract array without
            a sharding or a deleted array.
        shard_shape: The shape of the shard on each device, or ``None``.
        same_as: The path of an earlier leaf that is the same array, or
            ``None``. The sums of a :class:`TreeLayout` count it there.
        deleted: Whether the array was deleted, for example by donation.
        committed: Whether the array is committed to its devices, or
            ``None`` if it isn't a JAX array.
        repeats: In a layout that is rolled up, how many arrays this entry
            stands for.
    """

    path: str
    shape: tuple[int, ...]
    dtype: str
    bits: int
    sharding: Sharding | None
    shard_shape: tuple[int, ...] | None
    same_as: str | None = None
    deleted: bool = False
    committed: bool | None = None
    repeats: int = 1

    @property
    def where(self) -> str:
        """The ``PartitionSpec`` in words, or what is there instead."""
        match self.sharding:
            case None:
                return "deleted" if self.deleted else "not on a device"
            case NamedSharding(spec=spec):
                words = str(spec).replace(",)", ")")
                # Sums are the usual kind, which jax 0.12 always names.
                words = words.replace(", unreduced_kind=sum", "")
            case jax.sharding.SingleDeviceSharding():
                (device,) = self.devices
                words = f"one device: {device_id(device)}"
            case _ if (only := only_holder(self.sharding)) is not None:
                words = f"device {device_id(only)} alone"
            case _:
                words = type(self.sharding).__name__
        return f"{words}, {self.host_memory}" if self.host_memory else words

    @property
    def host_memory(self) -> str:
        """The kind of memory if the array is offloaded, else ``""``."""
        kind = self.sharding.memory_kind if self.sharding else None
        if kind is None or "host" not in kind:
            return ""
        # On CPU the host's memory is that of the devices.
        usual = {
            device.default_memory().kind
            for device in self.devices
            if isinstance(device, jax.Device)
        }
        return "" if kind in usual else kind

    @property
    def type(self) -> str:
        """Dtype and shape, as in ``float32[16,4]``.

        A Python number has the dtype that NumPy gives it.
        """
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"

    @property
    def devices(self) -> tuple[Device, ...]:
        """The devices that hold a part of the array, in order of id.

        For an abstract mesh, these are positions: 0, 1, 2 and so on.
        """
        if self.sharding is None:
            return ()
        return tuple(sorted(devices_in(self.sharding), key=device_id))

    def to_dict(self) -> dict[str, Any]:
        """Describe the array as JSON, however its spec is written.

        It has the array's type and spec, the sizes of the mesh axes, and
        the bytes on each device that holds a part.
        """
        about: dict[str, Any] = {
            "type": self.type,
            "spec": self.where,
            "bytes": self.bytes_per_device,
        }
        if isinstance(self.sharding, NamedSharding):
            axes = axes_of(self)
            while axes and not axes[-1]:
                axes = axes[:-1]
            about["spec"] = [list(names) for names in axes]
            about["mesh"] = dict(self.sharding.mesh.shape)
            if unreduced := self.sharding.spec.unreduced:
                about["unreduced"] = sorted(unreduced)
            if self.host_memory:
                about["memory"] = self.host_memory
        return about

    @property
    def bytes_per_device(self) -> int:
        """Bytes on each device that holds a part.

        A type below a byte, such as int4, is packed, as XLA counts it in a
        program. NumPy's ``nbytes`` and, on CPU, jax 0.10 take a byte for
        each element.
        """
        if self.shard_shape is None:
            return 0
        return -(-math.prod(self.shard_shape) * self.bits // 8)

    @property
    def nbytes(self) -> int:
        """Bytes of the whole array, as if one device held it."""
        return -(-math.prod(self.shape) * self.bits // 8)

    @property
    def bytes(self) -> int:
        """Bytes on all devices together; each device's copy counts."""
        return self.bytes_per_device * len(self.devices) * self.repeats


def axes_of(leaf: "LeafLayout") -> tuple[tuple[str, ...], ...]:
    """Give for each axis of an array the mesh axes that divide it."""
    return mesh_axes(leaf.sharding, len(leaf.shape))


def leaf_of(
    path: str,
    array: Any,
    sharding: Any,
    *,
    deleted: bool = False,
    committed: bool | None = None,
) -> LeafLayout:
    """Describe what has a shape and a dtype, under a sharding.

    Raises:
        ValueError: If the sharding doesn't fit the shape.
    """
    shape = tuple(array.shape)
    if sharding is not None and not isinstance(sharding, Sharding):
        sharding = _noted_sharding(sharding)
    return LeafLayout(
        path=path,
        shape=shape,
        dtype=_name_of(array.dtype),
        bits=_bits_of(array.dtype),
        sharding=sharding,
        shard_shape=_shard_shape(sharding, shape),
        deleted=deleted,
        committed=committed,
    )


def _noted_sharding(noted: Any) -> NamedSharding | None:
    """Read what the metadata of a checkpoint says of an array's sharding.

    Orbax notes the mesh; its devices need not be here. What was on one
    device has no mesh.
    """
    if not hasattr(noted, "partition_spec"):
        return None
    mesh = AbstractMesh(tuple(map(int, noted.shape)), (*noted.axis_names,))
    # In JSON, a tuple of axes is a list.
    entries = [
        tuple(entry) if isinstance(entry, list) else entry
        for entry in noted.partition_spec
    ]
    return NamedSharding(mesh, PartitionSpec(*entries))


# NumPy makes the name anew each time.
_name_of = cache(str)


@cache
def _bits_of(dtype: Any) -> int:
    """Give the bits of an element."""
    # NumPy knows no type below a byte, and JAX no bits of a random key.
    if dtype.itemsize == 1:
        return int(jax.dtypes.itemsize_bits(dtype))
    return 8 * int(dtype.itemsize)


@cache
def _shard_shape(
    sharding: Any, shape: tuple[int, ...]
) -> tuple[int, ...] | None:
    """Give the shape of a shard; of alike arrays it's computed once."""
    return sharding.shard_shape(shape) if sharding else None
