"""Report how the arrays of a tree or Module are laid out on devices."""

import html
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Any, TypeAlias

import jax
import numpy as np
from flax import nnx
from jax.sharding import AbstractMesh, NamedSharding, Sharding

# A device; of an abstract mesh, which has none, the position in it.
Device: TypeAlias = jax.Device | int
# The start and stop of a part of an array, along each axis.
Slice = tuple[tuple[int, int], ...]


def device_id(device: Device) -> int:
    """Give the id of a device, or its position in an abstract mesh."""
    return device if isinstance(device, int) else device.id


@dataclass(frozen=True)
class LeafLayout:
    """How one array is laid out.

    Attributes:
        path: The names that lead to the array, joined by dots.
        shape: The shape of the whole array.
        dtype: The name of its dtype.
        itemsize: Bytes of one element.
        sharding: How it is laid out, or ``None`` if it is on no device:
            a NumPy array, a Python number, an abstract shape, an array
            that was deleted.
        shard_shape: The shape of the part on each device, or ``None``.
        same_as: The path of an earlier leaf that is the same array, or
            ``None``. The sums of a :class:`TreeLayout` count it there.
        deleted: Whether it was deleted, as a donated array is.
    """

    path: str
    shape: tuple[int, ...]
    dtype: str
    itemsize: int
    sharding: Sharding | None
    shard_shape: tuple[int, ...] | None
    same_as: str | None = None
    deleted: bool = False

    @property
    def spec(self) -> str:
        """The ``PartitionSpec``, or in words what there is instead."""
        match self.sharding:
            case None:
                return "deleted" if self.deleted else "not on a device"
            case NamedSharding(spec=spec):
                return str(spec).replace(",)", ")")
            case jax.sharding.SingleDeviceSharding():
                (device,) = self.devices
                return f"one device: {device_id(device)}"
            case _:
                return type(self.sharding).__name__

    @property
    def type(self) -> str:
        """Dtype and shape, as :func:`jax.typeof` prints them."""
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"

    @property
    def devices(self) -> tuple[Device, ...]:
        """The devices that hold a part of the array, in order of id.

        Those of an abstract mesh are its positions: 0, 1, 2 and so on.
        """
        if self.sharding is None:
            return ()
        return tuple(sorted(devices_of(self.sharding), key=device_id))

    @property
    def bytes_per_device(self) -> int:
        """Bytes on each device that holds a part."""
        if self.shard_shape is None:
            return 0
        return math.prod(self.shard_shape) * self.itemsize

    @property
    def bytes(self) -> int:
        """Bytes on all devices together; copies count each time."""
        return self.bytes_per_device * len(self.devices)


def devices_of(sharding: Sharding) -> Sequence[Device]:
    """List the devices of a sharding, in the order of its mesh."""
    match sharding:
        case NamedSharding(mesh=AbstractMesh() as mesh):
            return range(mesh.size)
        case NamedSharding(mesh=mesh):
            return list(mesh.devices.flat)
        case _:
            return list(sharding.device_set)


def slices_of(
    sharding: Sharding, shape: tuple[int, ...]
) -> dict[Any, Slice]:
    """Give the slice of an array that each device holds."""
    if not isinstance(sharding, NamedSharding):
        return {
            device: tuple(
                part.indices(size)[:2]
                for part, size in zip(index, shape, strict=True)
            )
            for device, index in sharding.devices_indices_map(shape).items()
        }
    # By hand, for JAX does it for neither an abstract mesh nor a sum that
    # is not reduced.
    sizes = sharding.mesh.shape
    shard_shape = sharding.shard_shape(shape)
    held = {}
    for device, place in zip(
        devices_of(sharding), np.ndindex(*sizes.values()), strict=True
    ):
        index = dict(zip(sizes, place, strict=True))
        starts = [0] * len(shape)
        for axis, entry in enumerate(sharding.spec.partitions):
            names = entry if isinstance(entry, tuple) else (entry,)
            for name in names:
                if name in sizes:
                    starts[axis] = starts[axis] * sizes[name] + index[name]
        held[device] = tuple(
            (start * size, (start + 1) * size)
            for start, size in zip(starts, shard_shape, strict=True)
        )
    return held


class TreeLayout(Sequence[LeafLayout]):
    """How each array of a tree is laid out; it prints as a table.

    A sequence of :class:`LeafLayout`, in the order of the tree.
    """

    HEADINGS = (
        "path",
        "array",
        "spec",
        "each device",
        "bytes each",
        "bytes in all",
    )

    def __init__(self, leaves: Sequence[LeafLayout]) -> None:
        self._leaves = tuple(leaves)

    def __getitem__(self, index: Any) -> Any:
        return self._leaves[index]

    def __len__(self) -> int:
        return len(self._leaves)

    @cached_property
    def bytes_on(self) -> dict[Device, int]:
        """Bytes on each device that holds any of it, in order of id.

        An array that the tree has twice is counted once.
        """
        held: Counter[Device] = Counter()
        for leaf in self:
            for device in leaf.devices if leaf.same_as is None else ():
                held[device] += leaf.bytes_per_device
        return {
            device: held[device] for device in sorted(held, key=device_id)
        }

    @property
    def bytes_per_device(self) -> int:
        """Bytes on the device that holds the most."""
        return max(self.bytes_on.values(), default=0)

    @property
    def bytes(self) -> int:
        """Bytes on all devices together; each device's copy counts."""
        return sum(self.bytes_on.values())

    def _rows(self) -> Iterator[tuple[str, ...]]:
        for leaf in self:
            yield (
                leaf.path,
                leaf.type,
                leaf.spec,
                "-" if leaf.shard_shape is None else str(leaf.shard_shape),
                f"{leaf.bytes_per_device:,}",
                f"{leaf.bytes:,}"
                if leaf.same_as is None
                else f"same as {leaf.same_as}",
            )
        devices = len(self.bytes_on)
        noun = "device" if devices == 1 else "devices"
        most = "at most " if len(set(self.bytes_on.values())) > 1 else ""
        yield (
            f"{devices} {noun}",
            "",
            "",
            "",
            f"{most}{self.bytes_per_device:,}",
            f"{self.bytes:,}",
        )

    def __repr__(self) -> str:
        rows = [self.HEADINGS, *self._rows()]
        widths = [
            max(map(len, column)) for column in zip(*rows, strict=True)
        ]
        lines = [
            [
                *map(str.ljust, row[:4], widths[:4]),
                *map(str.rjust, row[4:], widths[4:]),
            ]
            for row in rows
        ]
        return "\n".join("  ".join(line).rstrip() for line in lines)

    def _repr_html_(self) -> str:
        def line(cells: Sequence[str], start: str, end: str) -> str:
            row = "".join(
                f"{start}{html.escape(cell)}{end}" for cell in cells
            )
            return f"<tr>{row}</tr>"

        head = line(self.HEADINGS, '<th scope="col">', "</th>")
        *rows, total = [line(row, "<td>", "</td>") for row in self._rows()]
        return (
            f'<div class="shardbook-table"><table><thead>{head}</thead>'
            f"<tbody>{''.join(rows)}</tbody>"
            f"<tfoot>{total}</tfoot></table></div>"
        )


def is_graph_node(node: Any) -> bool:
    """Whether this is a Module, a Variable, or another node of flax.nnx."""
    return isinstance(node, nnx.Pytree | nnx.Variable)


def expand_modules(tree: Any) -> Any:
    """Replace each Module in a tree by its state.

    As a pytree, a Module repeats what it shares; its state does not.
    """
    nodes, treedef = jax.tree.flatten(tree, is_leaf=is_graph_node)
    states = nnx.state([node for node in nodes if is_graph_node(node)])
    places = count()
    return jax.tree.unflatten(
        treedef,
        [
            states.get(next(places), {}) if is_graph_node(node) else node
            for node in nodes
        ],
    )


def strip_value(path: tuple[Any, ...]) -> tuple[Any, ...]:
    """Leave out the last key of a path, if it says nothing.

    Variables and Linen boxes keep their array in an attribute ``value``,
    which says nothing about where in the model the array is.
    """
    if path and path[-1] == jax.tree_util.GetAttrKey("value"):
        return path[:-1]
    return path


def _leaf_layout(name: str, leaf: Any, same_as: str | None) -> LeafLayout:
    if isinstance(leaf, jax.core.Tracer):
        raise TypeError(
            f"the array at {name!r} is being traced and is on no device "
            "yet; call layout() outside of jit, grad and vmap"
        )
    if isinstance(leaf, bool | int | float | complex):
        leaf = np.asarray(leaf)
    if not hasattr(leaf, "shape") or not hasattr(leaf, "dtype"):
        raise TypeError(
            "layout() reports arrays, ShapeDtypeStructs and numbers, but "
            f"the leaf at {name!r} is a {type(leaf).__name__}: {leaf!r}"
        )
    shape, dtype = tuple(leaf.shape), leaf.dtype
    deleted = isinstance(leaf, jax.Array) and leaf.is_deleted()
    sharding = None if deleted else getattr(leaf, "sharding", None)
    # The type of an array outside of any mesh.
    if isinstance(sharding, NamedSharding) and sharding.mesh.empty:
        sharding = None
    try:
        shard_shape = sharding and sharding.shard_shape(shape)
    except ValueError as error:
        error.add_note(f"This is the array at {name!r}.")
        raise
    return LeafLayout(
        name,
        shape,
        str(dtype),
        dtype.itemsize,
        sharding,
        shard_shape,
        same_as,
        deleted,
    )


def layout(tree: Any) -> TreeLayout:
    """Report how each array of a tree or Module is laid out, in bytes.

    Args:
        tree: An array, or any tree of them: an :class:`flax.nnx.Module`,
            an :class:`flax.nnx.State`, Linen variables with or without
            boxes, optimizer state, abstract arrays with shardings, on a
            mesh of devices or an abstract one.
            A Variable that a Module holds twice is reported once, and an
            array that two Variables hold is counted once.

    Returns:
        One :class:`LeafLayout` for each array, with its shape on each
        device and its bytes, and the sums. It prints as a table, and shows
        as one in a notebook.

    Raises:
        TypeError: If a leaf is neither an array nor a number, or is being
            traced.
        ValueError: If the sharding of an abstract array does not divide
            its shape.

    Example:
        >>> import jax
        >>> from flax import nnx
        >>> from jax.sharding import NamedSharding, PartitionSpec as P
        >>> from shardbook import layout
        >>> auto = jax.sharding.AxisType.Auto
        >>> mesh = jax.make_mesh((2, 4), ("data", "model"), (auto, auto))
        >>> linear = nnx.Linear(16, 64, use_bias=False, rngs=nnx.Rngs(0))
        >>> columns = NamedSharding(mesh, P(None, "model"))
        >>> state = jax.device_put(nnx.state(linear), columns)
        >>> layout(state)[0].shard_shape
        (16, 16)
        >>> layout(state)
        path       array           spec              each device  bytes each  bytes in all
        kernel     float32[16,64]  P(None, 'model')  (16, 16)          1,024         8,192
        8 devices                                                      1,024         8,192
    """  # noqa: E501
    leaves = jax.tree_util.tree_leaves_with_path(expand_modules(tree))
    rows = []
    first: dict[int, str] = {}
    for path, leaf in leaves:
        name = jax.tree_util.keystr(
            strip_value(path), simple=True, separator="."
        )
        same_as = None
        if isinstance(leaf, jax.Array):
            same_as = first.get(id(leaf))
            first.setdefault(id(leaf), name)
        rows.append(_leaf_layout(name, leaf, same_as))
    return TreeLayout(rows)
