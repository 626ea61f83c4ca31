"""Report how the arrays of a tree or Module are laid out on devices."""

import json
import math
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache, cached_property
from itertools import count
from operator import attrgetter
from os import PathLike
from typing import Any, TypeAlias

import jax
import numpy as np
from jax.sharding import AbstractMesh, NamedSharding, Sharding

from shardbook._findings import (
    Finding,
    axes_of,
    common_pattern,
    find,
    mesh_axes,
    pattern_of,
)
from shardbook._layout_files import read_layout, require_same
from shardbook._layout_tables import html_of, text_of

# A device; of an abstract mesh, which has none, the position in it.
Device: TypeAlias = jax.Device | int
# The start and stop of a part of an array, along each axis.
Slice = tuple[tuple[int, int], ...]


def device_id(device: Device) -> int:
    """Give the id of a device, or its position in an abstract mesh."""
    return device if isinstance(device, int) else device.id


@dataclass(frozen=True, slots=True)
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
        committed: Whether it is committed to its devices, or ``None`` if
            it is no array of JAX.
        repeats: How many arrays that differ in the numbers of their path
            this one stands for, in a layout that is rolled up.
    """

    path: str
    shape: tuple[int, ...]
    dtype: str
    itemsize: int
    sharding: Sharding | None
    shard_shape: tuple[int, ...] | None
    same_as: str | None = None
    deleted: bool = False
    committed: bool | None = None
    repeats: int = 1

    @property
    def spec(self) -> str:
        """The ``PartitionSpec``, or in words what there is instead."""
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
            case _:
                words = type(self.sharding).__name__
        return f"{words}, {self.host_memory}" if self.host_memory else words

    @property
    def host_memory(self) -> str:
        """The kind of memory if it is the host's, or else nothing."""
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

        Those of a number are as NumPy has them.
        """
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"

    @property
    def devices(self) -> tuple[Device, ...]:
        """The devices that hold a part of the array, in order of id.

        Those of an abstract mesh are its positions: 0, 1, 2 and so on.
        """
        if self.sharding is None:
            return ()
        return tuple(sorted(devices_of(self.sharding), key=device_id))

    def to_dict(self) -> dict[str, Any]:
        """Describe the array in terms of JSON, however its spec is written.

        With its type, its spec, and the sizes of the mesh axes.
        """
        about: dict[str, Any] = {"type": self.type, "spec": self.spec}
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
        """Bytes on each device that holds a part, as ``nbytes`` counts."""
        if self.shard_shape is None:
            return 0
        return math.prod(self.shard_shape) * self.itemsize

    @property
    def bytes(self) -> int:
        """Bytes on all devices together; copies count each time."""
        return self.bytes_per_device * len(self.devices) * self.repeats


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
        for axis, names in enumerate(mesh_axes(sharding, len(shape))):
            for name in names:
                starts[axis] = starts[axis] * sizes[name] + index[name]
        held[device] = tuple(
            (start * size, (start + 1) * size)
            for start, size in zip(starts, shard_shape, strict=True)
        )
    return held


def values_of(sharding: Sharding) -> int:
    """Count the values that the devices hold of one slice.

    One, unless the array is unreduced: devices along these mesh axes then
    hold what has still to be added up.
    """
    if not isinstance(sharding, NamedSharding):
        return 1
    sizes = sharding.mesh.shape
    return math.prod(sizes[name] for name in sharding.spec.unreduced)


def _part_of(leaves: Sequence[LeafLayout]) -> "TreeLayout":
    """Give a layout of some leaves; an array that two of them are, once."""
    rolled = {pattern_of(leaf.path) for leaf in leaves if leaf.repeats > 1}
    first: dict[str, str] = {}
    part = []
    for leaf in leaves:
        same_as = leaf.same_as
        # One that is rolled up has another path, and counts there.
        if same_as is None or pattern_of(same_as) not in rolled:
            other = leaf.path if same_as is None else same_as
            other = first.setdefault(other, leaf.path)
            same_as = None if other == leaf.path else other
        part.append(replace(leaf, same_as=same_as))
    return TreeLayout(part)


_about = attrgetter(
    "same_as", "dtype", "shape", "sharding", "deleted", "committed"
)


class TreeLayout(Sequence[LeafLayout]):
    """How each array of a tree is laid out; it prints as a table.

    A sequence of :class:`LeafLayout`, in the order of the tree. A slice of
    it is a layout too, and ``layout(model)["layers.0.kernel"]`` gives the
    array of that path. A large one prints rolled up, and what looks wrong
    in it is said below the table.
    """

    def __init__(self, leaves: Iterable[LeafLayout]) -> None:
        self._leaves = tuple(leaves)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return _part_of(self._leaves[index])
        if isinstance(index, str):
            found = self._matching(index)
            if len(found) > 1:
                raise KeyError(
                    f"{len(found)} arrays match {index!r}: use select()"
                )
            return found[0]
        return self._leaves[index]

    def __len__(self) -> int:
        return len(self._leaves)

    @cached_property
    def bytes_on(self) -> dict[Device, int]:
        """Bytes on each device that holds any of it, in order of id.

        An array that the tree has twice is counted once, and one in the
        memory of the host is not counted.
        """
        held: Counter[Device] = Counter()
        # Not each array on each device: both may be thousands.
        for leaf in self.rolled_up():
            if leaf.same_as is None and not leaf.host_memory:
                for device in leaf.devices:
                    held[device] += leaf.bytes_per_device * leaf.repeats
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

    @property
    def host_bytes(self) -> int:
        """Bytes in the memory of hosts, where arrays are offloaded to."""
        return sum(
            leaf.bytes
            for leaf in self.rolled_up()
            if leaf.host_memory and leaf.same_as is None
        )

    def select(self, pattern: str) -> "TreeLayout":
        """Keep the arrays whose path matches.

        Args:
            pattern: A path, in which ``*`` stands for any characters, as
                in ``"layers.*.kernel"``.

        Raises:
            KeyError: If there is none.
        """
        return _part_of(self._matching(pattern))

    def _matching(self, pattern: str) -> list[LeafLayout]:
        parts = map(re.escape, pattern.split("*"))
        matches = re.compile(".*".join(parts), re.DOTALL).fullmatch
        found = [each for each in self if matches(each.path)]
        if not found:
            near = get_close_matches(pattern, [x.path for x in self], n=3)
            some = near or [each.path for each in self[:3]]
            raise KeyError(
                f"No array at {pattern!r}. There are {len(self)} paths"
                + ", such as " * bool(some)
                + ", ".join(map(repr, some))
            )
        return found

    def by_size(self) -> "TreeLayout":
        """Put the arrays that take the most bytes on a device first."""
        return TreeLayout(
            sorted(self, key=lambda x: -x.bytes_per_device * x.repeats)
        )

    def rolled_up(self) -> "TreeLayout":
        """Take arrays together that differ in the numbers of their path.

        Those of layers that repeat, if they are alike in all else:
        ``layers.*.kernel`` or ``layers_*.kernel``, with ``repeats``.
        """
        return self._rolled_up

    @cached_property
    def _rolled_up(self) -> "TreeLayout":
        groups: defaultdict[Any, list[LeafLayout]] = defaultdict(list)
        for leaf in self:
            # What is the same array as another is not taken together.
            alone = leaf.same_as is not None
            pattern = leaf.path if alone else pattern_of(leaf.path)
            groups[pattern, _about(leaf)].append(leaf)
        return TreeLayout(
            replace(
                group[0],
                path=common_pattern(leaf.path for leaf in group),
                repeats=sum(leaf.repeats for leaf in group),
            )
            for group in groups.values()
        )

    def findings(self, ignore: Collection[str] = ()) -> tuple[Finding, ...]:
        """Tell what looks wrong, the costliest first.

        Arrays that are alike are taken together, as in :meth:`rolled_up`.

        Args:
            ignore: Names of rules to leave out: ``replicated``,
                ``other_axes``, ``largest_axis``, ``optimizer_state`` and
                ``one_device``.

        Raises:
            ValueError: If a rule is unknown.
        """
        return find(self.rolled_up(), ignore)

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Describe each array by its path, in terms of JSON.

        With its type, its spec, and the sizes of the mesh axes.

        Raises:
            ValueError: If two arrays have the same path.
        """
        paths = Counter(leaf.path for leaf in self)
        if twice := [path for path, count in paths.items() if count > 1]:
            raise ValueError(
                f"{paths[twice[0]]} arrays have the path {twice[0]!r}, so "
                "it can't tell them apart. Rename one of them; if the "
                "layout is rolled up, take the whole one"
            )
        return {leaf.path: leaf.to_dict() for leaf in self}

    def save(self, path: str | PathLike[str]) -> None:
        """Write the layout to a file, for :meth:`expect`.

        Raises:
            FileExistsError: If there is one. Delete it first.
            ValueError: If two arrays have the same path.
        """
        text = json.dumps(self.to_dict(), indent=1)
        try:
            with open(path, "x", encoding="utf-8") as file:
                file.write(f"{text}\n")
        except FileExistsError as error:
            error.add_note("Delete it first, if the layout should change.")
            raise

    def expect(
        self, other: "TreeLayout | str | PathLike[str]"
    ) -> "TreeLayout":
        """Require the same arrays with the same layout, as a test does.

        Specs are the same if they divide an array over the same mesh axes,
        however they are written. Which device is where in the mesh is not
        compared, so a saved layout holds on another machine. Neither may
        be rolled up: the paths would differ. An array on a single device
        is compared with the id of the device.

        Args:
            other: A layout, or a file that :meth:`save` has written.

        Returns:
            The layout itself.

        Raises:
            shardbook.LayoutMismatch: If they differ, with each path that
                does. It is an AssertionError.
            FileNotFoundError: If there is no such file.
            ValueError: If :meth:`save` did not write it, or if two arrays
                of a layout have the same path.

        Example:
            >>> import jax
            >>> from shardbook import layout
            >>> before = layout({"step": jax.numpy.zeros(())})
            >>> after = layout({"step": jax.numpy.ones(())})
            >>> after.expect(before)["step"].type
            'float32[]'
        """
        if isinstance(other, TreeLayout):
            require_same(self.to_dict(), other.to_dict())
        else:
            require_same(self.to_dict(), read_layout(other))
        return self

    def __repr__(self) -> str:
        return text_of(self)

    def _repr_html_(self) -> str:
        return html_of(self)


def is_graph_node(node: Any) -> bool:
    """Whether this is a Module, a Variable, or another node of flax.nnx."""
    # Where flax was not imported, nothing is one.
    nnx: Any = sys.modules.get("flax.nnx")
    return bool(nnx) and isinstance(node, nnx.Pytree | nnx.Variable)


def expand_modules(tree: Any) -> Any:
    """Replace each Module in a tree by its state.

    As a pytree, a Module repeats what it shares; its state does not.
    """
    nodes, treedef = jax.tree.flatten(tree, is_leaf=is_graph_node)
    if not any(map(is_graph_node, nodes)):
        return tree
    from flax import nnx

    states = nnx.state([node for node in nodes if is_graph_node(node)])
    places = count()
    return jax.tree.unflatten(
        treedef,
        [
            states.get(next(places), {}) if is_graph_node(node) else node
            for node in nodes
        ],
    )


_VALUE = jax.tree_util.GetAttrKey("value")


def dotted(path: tuple[Any, ...]) -> str:
    """Write a path as names, joined by dots."""
    return jax.tree_util.keystr(path, simple=True, separator=".")


def strip_value(path: tuple[Any, ...]) -> tuple[Any, ...]:
    """Leave out the last key of a path, if it says nothing.

    Variables and Linen boxes keep their array in an attribute ``value``,
    which says nothing about where in the model the array is.
    """
    if path and path[-1] == _VALUE:
        return path[:-1]
    return path


def named_leaves(tree: Any) -> Iterator[tuple[str, Any]]:
    """Give the leaves of a tree, each with its path.

    Those of a Module or Variable that the tree has twice are given once.
    """
    # The nodes are kept, or another might get the id of one.
    seen: dict[int, Any] = {}
    modules: dict[Any, Any] = {}

    def is_leaf(path: Any, node: Any) -> bool:
        if not is_graph_node(node):
            return False
        from flax import nnx

        if isinstance(node, nnx.Variable) or id(node) in seen:
            return True
        seen[id(node)] = modules[path] = node
        return False

    leaves = jax.tree_util.tree_leaves_with_path(
        tree, is_leaf=is_leaf, is_leaf_takes_path=True
    )
    if modules and any(
        jax.tree_util.all_leaves([node]) for node in modules.values()
    ):
        # JAX can't look into a Module that is no pytree.
        yield from named_leaves(expand_modules(tree))
        return
    for path, leaf in leaves:
        if not is_graph_node(leaf):
            short = strip_value(path)
            # In a Module it is an attribute like any other.
            if short is not path and not any(
                path[:end] in modules for end in range(len(path))
            ):
                path = short
            yield dotted(path), leaf
        elif id(leaf) not in seen:
            seen[id(leaf)] = leaf
            value = leaf.get_raw_value()
            for rest, array in jax.tree_util.tree_leaves_with_path(value):
                if rest:
                    rest = (_VALUE, *strip_value(rest))
                yield dotted(path + rest), array


@cache
def _shard_shape(sharding: Any, shape: tuple[int, ...]) -> Any:
    return sharding.shard_shape(shape) if sharding else None


def _leaf(path: str, leaf: Any) -> LeafLayout:
    """Describe an array, a number, or what stands for an array."""
    if isinstance(leaf, jax.core.Tracer):
        raise TypeError(
            f"the array at {path!r} is being traced and is on no "
            "device yet; call layout() outside of jit, grad and vmap"
        )
    array: Any = (
        np.asarray(leaf)
        if isinstance(leaf, bool | int | float | complex)
        else leaf
    )
    if not hasattr(array, "shape") or not hasattr(array, "dtype"):
        raise TypeError(
            "layout() reports arrays, ShapeDtypeStructs and numbers, but "
            f"the leaf at {path!r} is a {type(leaf).__name__}: {leaf!r}"
        )
    is_array = isinstance(array, jax.Array)
    deleted = is_array and array.is_deleted()
    shape = tuple(array.shape)
    try:
        sharding = None if deleted else getattr(array, "sharding", None)
        # The type of an array outside of any mesh.
        if isinstance(sharding, NamedSharding) and sharding.mesh.empty:
            sharding = None
        return LeafLayout(
            path=path,
            shape=shape,
            dtype=str(array.dtype),
            itemsize=array.dtype.itemsize,
            sharding=sharding,
            shard_shape=_shard_shape(sharding, shape),
            deleted=deleted,
            committed=array.committed if is_array else None,
        )
    except (TypeError, ValueError) as error:
        error.add_note(f"This is the array at {path!r}.")
        raise


def layout(tree: Any) -> TreeLayout:
    """Report how each array of a tree or Module is laid out, in bytes.

    Args:
        tree: An array, or any tree of them: an :class:`flax.nnx.Module`,
            an :class:`flax.nnx.State`, Linen variables with or without
            boxes, optimizer state, abstract arrays with shardings, on a
            mesh of devices or an abstract one.
            A Variable that a Module holds twice is reported once, and an
            array that two Variables hold is counted once. Leaves that are
            functions are left out, such as the activation of an Equinox
            module.

    Returns:
        One :class:`LeafLayout` for each array, with its shape on each
        device and its bytes, and the sums. It prints as a table, and shows
        as one in a notebook.

    Raises:
        TypeError: If a leaf is neither an array nor a number nor a
            function, or is being traced, or has a spec and no mesh, or if
            the tree itself is a function.
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
    first: dict[int, str] = {}
    leaves = []
    for path, leaf in named_leaves(tree):
        # An Equinox module has its activation as a leaf.
        if path and callable(leaf):
            continue
        about = _leaf(path, leaf)
        if about.committed is not None:
            earlier = first.setdefault(id(leaf), path)
            if earlier is not path:
                about = replace(about, same_as=earlier)
        leaves.append(about)
    return TreeLayout(leaves)
