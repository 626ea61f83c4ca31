"""Report how the arrays of a tree or Module are laid out on devices."""

import re
import reprlib
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import cached_property
from operator import attrgetter
from os import PathLike
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding

from shardscope.arrays.finding import Finding
from shardscope.arrays.leaf import LeafLayout, leaf_of
from shardscope.arrays.leaves import named_leaves
from shardscope.arrays.paths import pattern_of, roll_up
from shardscope.arrays.shards import Device, device_id
from shardscope.compare.difference import (
    Difference,
    LayoutMismatch,
    changes_of_arrays,
    require_same,
)
from shardscope.compare.files import read, save
from shardscope.layouts.findings import find
from shardscope.layouts.table import findings_of, table_of, text_of
from shardscope.tables import html_of


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


_alike = attrgetter("dtype", "shape", "sharding", "deleted", "committed")


def _about(leaf: LeafLayout) -> Any:
    """Give all that arrays which are rolled up have in common."""
    # What is the same array as another has a row of its own.
    return _alike(leaf), leaf.same_as and (leaf.same_as, leaf.path)


class TreeLayout(Sequence[LeafLayout]):
    """How each array of a tree is sharded, printed as a table.

    This is a sequence of :class:`LeafLayout`, in the order of the tree. A
    slice is a layout too, and ``layout(model)["layers.0.kernel"]`` is the
    array at that path. A large layout prints rolled up, as in
    :meth:`rolled_up`. Above the table are its :meth:`findings`.
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
        """Bytes on each device that holds an array, in order of id.

        An array that occurs twice in the tree counts once. Arrays in host
        memory don't count.
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
        """Bytes on the fullest device."""
        return max(self.bytes_on.values(), default=0)

    @property
    def bytes(self) -> int:
        """Bytes on all devices together; each device's copy counts."""
        return sum(self.bytes_on.values())

    @property
    def host_bytes(self) -> int:
        """Bytes of offloaded arrays, which are in host memory."""
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
            KeyError: If no path matches.
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
        """Sort the arrays by their bytes on a device, largest first."""
        return TreeLayout(
            sorted(self, key=lambda x: -x.bytes_per_device * x.repeats)
        )

    def rolled_up(self) -> "TreeLayout":
        """Merge arrays whose paths differ only in numbers.

        These are the arrays of repeated layers. If they are alike in
        everything else, they become one entry, such as
        ``layers.*.kernel`` or ``layers_*.kernel``, with their number in
        ``repeats``.
        """
        return self._rolled_up

    @cached_property
    def _rolled_up(self) -> "TreeLayout":
        return TreeLayout(
            replace(
                group[0],
                path=path,
                repeats=sum(leaf.repeats for leaf in group),
            )
            for path, group in roll_up(self, attrgetter("path"), _about)
        )

    def findings(self, ignore: Collection[str] = ()) -> tuple[Finding, ...]:
        """List what looks wrong, the costliest first.

        The arrays of repeated layers share a finding, as in
        :meth:`rolled_up`.

        Args:
            ignore: Names of rules to leave out: ``replicated``,
                ``other_axes``, ``optimizer_state``, ``one_device``,
                ``several_meshes`` and ``abstract_mesh``.

        Raises:
            ValueError: If there is no rule of that name.
        """
        return find(self.rolled_up(), ignore)

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Describe each array as JSON, by path.

        An array has its type, its spec, the sizes of the mesh axes, and
        its bytes on each device that holds a part.

        Raises:
            ValueError: If two arrays have the same path.
        """
        paths = Counter(leaf.path for leaf in self)
        if twice := [path for path, count in paths.items() if count > 1]:
            raise ValueError(
                f"{paths[twice[0]]} arrays have the path {twice[0]!r}, so "
                "nothing tells them apart. Rename one of them; if this "
                "layout is rolled up, use the one it was made from"
            )
        return {leaf.path: leaf.to_dict() for leaf in self}

    def save(self, path: str | PathLike[str]) -> None:
        """Write the layout to a file, for :meth:`match`.

        Raises:
            FileExistsError: If the file exists. Delete it first.
            ValueError: If two arrays have the same path.
        """
        arrays = self.to_dict()
        meshes = [x["mesh"] for x in arrays.values() if "mesh" in x]
        mesh = meshes[0] if meshes else {}
        save("layout", {"mesh": mesh, "arrays": arrays}, path)

    def match(
        self, other: "TreeLayout | str | PathLike[str]"
    ) -> "TreeLayout":
        """Require the same arrays with the same layout, in a test.

        Two specs are the same if they divide the array over the same mesh
        axes, however they are written. The meshes must have axes of the
        same names and sizes, even axes of size 1 and axes that don't
        shard the array, but in any order. The devices don't matter, so a
        layout that you save on one machine holds on another with a mesh
        of these sizes, except that an array on a single device is
        compared with the id of that device. Neither layout may be rolled
        up, because the paths would differ.

        Args:
            other: A layout, or a file that :meth:`save` wrote.

        Returns:
            This layout.

        Raises:
            shardscope.LayoutMismatch: If the layouts differ, with the
                paths where they do. It is an AssertionError.
            FileNotFoundError: If there is no such file.
            ValueError: If :meth:`save` did not write it, or if two arrays
                of a layout have the same path.

        Example:
            >>> import jax
            >>> from shardscope import layout
            >>> before = layout({"step": jax.numpy.zeros(())})
            >>> after = layout({"step": jax.numpy.ones(())})
            >>> after.match(before)["step"].type
            'float32[]'
        """
        path = None if isinstance(other, TreeLayout) else other
        arrays = (
            other.to_dict()
            if isinstance(other, TreeLayout)
            else read(other, "layout")["arrays"]
        )
        changes = changes_of_arrays(arrays, self.to_dict())
        require_same(Difference.of(changes), LayoutMismatch, "layout", path)
        return self

    def __sub__(self, other: "TreeLayout") -> Difference:
        """Tell how this layout differs from another, path by path.

        Arrays are the same as in :meth:`match`. Those of repeated layers
        that differ alike share a line.

        Raises:
            ValueError: If two arrays of a layout have the same path.

        Example:
            >>> import jax
            >>> from shardscope import layout
            >>> before = layout({"step": jax.numpy.zeros(())})
            >>> after = layout({"step": jax.numpy.zeros(3)})
            >>> after - before
            grown: step: float32[] -> float32[3], 4 -> 12 bytes (+200%) on a device
        """  # noqa: E501
        if not isinstance(other, TreeLayout):
            return NotImplemented
        return Difference.of(
            changes_of_arrays(other.to_dict(), self.to_dict())
        )

    def __repr__(self) -> str:
        return text_of(self)

    def _repr_html_(self) -> str:
        return html_of(
            table_of(self),
            above=findings_of(self),
            kind=" shardscope-layout",
        )


def _leaf(path: str, leaf: Any) -> LeafLayout:
    """Describe an array, a number, or what stands for an array."""
    if isinstance(leaf, jax.core.Tracer):
        raise TypeError(
            f"the array at {path!r} is being traced and is on no "
            "device yet; call layout() outside of jit, grad and vmap"
        )
    is_number = isinstance(leaf, bool | int | float | complex)
    array: Any = np.asarray(leaf) if is_number else leaf
    if not hasattr(array, "shape") or not hasattr(array, "dtype"):
        raise TypeError(
            "layout() reports arrays, ShapeDtypeStructs and numbers, but "
            f"the leaf at {path!r} is a {type(leaf).__name__}: "
            f"{reprlib.repr(leaf)}"
        )
    is_array = isinstance(array, jax.Array)
    deleted = is_array and array.is_deleted()
    try:
        sharding = None if deleted else getattr(array, "sharding", None)
        # The type of an array outside of any mesh.
        if isinstance(sharding, NamedSharding) and sharding.mesh.empty:
            sharding = None
        return leaf_of(
            path,
            array,
            sharding,
            deleted=deleted,
            committed=array.committed if is_array else None,
        )
    except (TypeError, ValueError) as error:
        error.add_note(f"This is the array at {path!r}.")
        raise


def layout(tree: Any) -> TreeLayout:
    """Report how each array of a tree or Module is sharded, in bytes.

    Args:
        tree: An array, or any tree of arrays: an
            :class:`flax.nnx.Module`, an :class:`flax.nnx.State`, Linen
            variables with or without boxes, optimizer state, or abstract
            arrays with shardings, on a mesh of devices or an abstract
            one. The metadata of an Orbax checkpoint, its
            ``item_metadata``, is shown on the mesh that it was saved from.
            A Variable that a Module holds twice is
            reported once, and an array that two Variables share is counted
            once. Leaves that are functions, such as the activation of an
            Equinox module, are left out.

    Returns:
        One :class:`LeafLayout` for each array, with its shape and bytes
        on each device, and the sums. The layout prints as a table, also
        in a notebook.

    Raises:
        TypeError: If a leaf is not an array, a number or a function, if
            it is being traced, or if it has a spec but no mesh; also if
            the tree itself is a function.
        ValueError: If the sharding of an abstract array does not divide
            its shape.

    Example:
        >>> import jax
        >>> from flax import nnx
        >>> from jax.sharding import NamedSharding, PartitionSpec as P
        >>> from shardscope import layout
        >>> auto = jax.sharding.AxisType.Auto
        >>> mesh = jax.make_mesh((2, 4), ("data", "model"), (auto, auto))
        >>> linear = nnx.Linear(4, 8, use_bias=False, rngs=nnx.Rngs(0))
        >>> columns = NamedSharding(mesh, P(None, "model"))
        >>> state = jax.device_put(nnx.state(linear), columns)
        >>> layout(state)[0].shard_shape
        (4, 2)
        >>> layout(state)
        path    array         spec              bytes each
        kernel  float32[4,8]  P(None, 'model')          32
        8 devices                                       32
    """
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
