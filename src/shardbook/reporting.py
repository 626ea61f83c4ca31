"""Report how the arrays of a tree or Module lie on devices."""

import html
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Any

import jax
import numpy as np
from flax import nnx


@dataclass(frozen=True)
class LeafLayout:
    """Where one array lies.

    Attributes:
        path: The names that lead to the array, joined by dots.
        shape: The shape of the whole array.
        dtype: The name of its dtype.
        itemsize: Bytes of one element.
        sharding: How it is laid out, or ``None`` if it is on no device:
            a NumPy array, a Python number, an abstract shape.
        shard_shape: The shape of the part on each device, or ``None``.
    """

    path: str
    shape: tuple[int, ...]
    dtype: str
    itemsize: int
    sharding: jax.sharding.Sharding | None
    shard_shape: tuple[int, ...] | None

    @property
    def spec(self) -> str:
        """The ``PartitionSpec``, or in words what there is instead."""
        match self.sharding:
            case None:
                return "not on a device"
            case jax.sharding.NamedSharding(spec=spec):
                return repr(spec).replace(",)", ")")
            case jax.sharding.SingleDeviceSharding():
                (device,) = self.devices
                return f"one device: {device.id}"
            case _:
                return type(self.sharding).__name__

    @property
    def type(self) -> str:
        """Dtype and shape, as :func:`jax.typeof` prints them."""
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"

    @property
    def devices(self) -> tuple[jax.Device, ...]:
        """The devices that hold a part of the array, in order of id."""
        held = self.sharding.device_set if self.sharding else ()
        return tuple(sorted(held, key=lambda device: device.id))

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


class TreeLayout(Sequence[LeafLayout]):
    """Where each array of a tree lies; a table when shown.

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

    def __iter__(self) -> Iterator[LeafLayout]:
        return iter(self._leaves)

    @cached_property
    def bytes_on(self) -> dict[jax.Device, int]:
        """Bytes on each device that holds any of it, in order of id."""
        held = Counter()
        for leaf in self:
            for device in leaf.devices:
                held[device] += leaf.bytes_per_device
        return dict(sorted(held.items(), key=lambda item: item[0].id))

    @property
    def bytes_per_device(self) -> int:
        """Bytes on the device that holds the most."""
        return max(self.bytes_on.values(), default=0)

    @property
    def bytes(self) -> int:
        """Bytes on all devices together; copies count each time."""
        return sum(self.bytes_on.values())

    def _rows(self) -> Iterator[tuple[str, ...]]:
        for leaf in self:
            yield (
                leaf.path,
                leaf.type,
                leaf.spec,
                "-" if leaf.shard_shape is None else str(leaf.shard_shape),
                f"{leaf.bytes_per_device:,}",
                f"{leaf.bytes:,}",
            )
        devices = len(self.bytes_on)
        noun = "device" if devices == 1 else "devices"
        most = "at most " if len(set(self.bytes_on.values())) > 1 else ""
        yield (
            f"{devices} {noun}",
            *[""] * 3,
            f"{most}{self.bytes_per_device:,}",
            f"{self.bytes:,}",
        )

    def __repr__(self) -> str:
        rows = [self.HEADINGS, *self._rows()]
        widths = [
            max(map(len, column)) for column in zip(*rows, strict=True)
        ]
        return "\n".join(
            "  ".join(
                cell.rjust(width) if column > 3 else cell.ljust(width)
                for column, (cell, width) in enumerate(
                    zip(row, widths, strict=True)
                )
            ).rstrip()
            for row in rows
        )

    def _repr_html_(self) -> str:
        def line(cells: Sequence[str], tag: str) -> str:
            scope = ' scope="col"' if tag == "th" else ""
            return "<tr>{}</tr>".format(
                "".join(
                    f"<{tag}{scope}>{html.escape(cell)}</{tag}>"
                    for cell in cells
                )
            )

        *leaves, total = self._rows()
        body = "".join(line(row, "td") for row in leaves)
        return (
            '<div class="shardbook-table"><table>'
            f"<thead>{line(self.HEADINGS, 'th')}</thead>"
            f"<tbody>{body}</tbody>"
            f"<tfoot>{line(total, 'td')}</tfoot></table></div>"
        )


def _may_be_shared(node: Any) -> bool:
    return isinstance(node, nnx.Pytree | nnx.Variable)


def _name(path: Sequence[Any]) -> str:
    # Variables and Linen boxes keep their array in an attribute "value",
    # which says nothing about where in the model the array is.
    if path and path[-1] == jax.tree_util.GetAttrKey("value"):
        path = path[:-1]
    return jax.tree_util.keystr(path, simple=True, separator=".")


def _leaf_layout(path: Sequence[Any], leaf: Any) -> LeafLayout:
    name = _name(path)
    if isinstance(leaf, jax.core.Tracer):
        raise TypeError(
            f"the array at {name!r} is being traced and lies nowhere yet; "
            "call layout() outside of jit, grad and vmap"
        )
    if isinstance(leaf, bool | int | float | complex):
        leaf = np.asarray(leaf)
    if not hasattr(leaf, "shape") or not hasattr(leaf, "dtype"):
        raise TypeError(
            "layout() reports arrays, ShapeDtypeStructs and numbers, but "
            f"the leaf at {name!r} is a {type(leaf).__name__}: {leaf!r}"
        )
    shape, dtype = tuple(leaf.shape), leaf.dtype
    sharding = getattr(leaf, "sharding", None)
    try:
        shard_shape = sharding and sharding.shard_shape(shape)
    except ValueError as error:
        error.add_note(f"This is the array at {name!r}.")
        raise
    return LeafLayout(
        name, shape, str(dtype), dtype.itemsize, sharding, shard_shape
    )


def layout(tree: Any) -> TreeLayout:
    """Report where each array of a tree or Module lies, and its bytes.

    Args:
        tree: An array, or any tree of them: an :class:`flax.nnx.Module`,
            an :class:`flax.nnx.State`, Linen variables with or without
            boxes, optimizer state, abstract arrays with shardings.
            A Variable that a Module holds twice is reported once.

    Returns:
        One :class:`LeafLayout` for each array, and the sums. It prints as
        a table, and shows as one in a notebook.

    Raises:
        TypeError: If a leaf is no array and no number, or is being traced.
        ValueError: If an abstract array can't be cut as its sharding says.
    """
    nodes, treedef = jax.tree.flatten(tree, is_leaf=_may_be_shared)
    # As a pytree, a Module repeats what it shares; its state does not.
    states = nnx.state([node for node in nodes if _may_be_shared(node)])
    places = count()
    nodes = [
        states.get(next(places), {}) if _may_be_shared(node) else node
        for node in nodes
    ]
    leaves, _ = jax.tree_util.tree_flatten_with_path(
        treedef.unflatten(nodes)
    )
    return TreeLayout([_leaf_layout(path, leaf) for path, leaf in leaves])
