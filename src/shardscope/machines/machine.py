"""A mesh, and abstract arguments, of a machine that is not here."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import jax
from jax.sharding import (
    AxisType,
    Mesh,
    NamedSharding,
    PartitionSpec as P,
)

from shardscope.arrays.leaves import is_array
from shardscope.arrays.modules import split_modules
from shardscope.machines.devices import devices_of

Tree = TypeVar("Tree")


@dataclass(frozen=True)
class Machine:
    """A machine to compile for, which :func:`machine` returns.

    Attributes:
        mesh: A mesh of all its devices.
    """

    mesh: Mesh

    def place(self, tree: Tree, specs: Any = None) -> Tree:
        """Give abstract arguments on the mesh of the machine.

        Args:
            tree: Arrays in a pytree, Modules among them. They may be
                abstract, and on the devices of this computer.
            specs: Their specs: one for all, or a tree of specs whose
                leaves stand for the arrays below them. Those of a Module
                have the structure of its state. By default, and for None
                in the tree, arrays keep the spec that they have on their
                own mesh.

        Returns:
            The same tree with a :class:`jax.ShapeDtypeStruct` in the place
            of each array. Arrays without a spec, such as NumPy's, have no
            sharding: the call decides where it wants them.

        Raises:
            ValueError: If the specs don't have the structure of the tree,
                or name an axis that the mesh lacks.
        """
        states, join = split_modules(tree)
        spec_of = _each(specs, states)
        placed: Tree = join(
            jax.tree.map(lambda x: self._place(x, next(spec_of)), states)
        )
        return placed

    def _place(self, leaf: Any, spec: P | None) -> Any:
        """Give the abstract array of an array; the rest stays as it is."""
        if not is_array(leaf):
            return leaf
        own = getattr(leaf, "sharding", None)
        sharding = None
        if spec is not None:
            sharding = NamedSharding(self.mesh, spec)
        elif isinstance(own, NamedSharding):
            # What is offloaded stays so; other names are of one backend.
            pinned = own.memory_kind == "pinned_host"
            sharding = NamedSharding(
                self.mesh,
                own.spec,
                memory_kind="pinned_host" if pinned else None,
            )
        return jax.ShapeDtypeStruct(
            leaf.shape,
            leaf.dtype,
            sharding=sharding,
            weak_type=getattr(leaf, "weak_type", False),
        )


def _each(specs: Any, tree: Any) -> Iterator[P | None]:
    """Give the spec of each leaf of a tree."""

    def is_spec(node: Any) -> bool:
        return node is None or isinstance(node, P)

    full = jax.tree.broadcast(specs, tree, is_leaf=is_spec)
    return iter(jax.tree.leaves(full, is_leaf=is_spec))


def machine(name: str, /, explicit: bool = False, **axes: int) -> Machine:
    """Give a mesh and abstract arguments of a machine that is not here.

    With the compiler of the machine installed, :func:`program` compiles a
    call with such arguments as the machine would run it.

    Args:
        name: A TPU slice or a GPU cluster as :func:`devices_of` takes it:
            ``"v5e:2x4"``, or eight hosts of eight GPUs, ``"h100:8x8"``.
        explicit: Whether the mesh axes are Explicit. By default they are
            Auto.
        **axes: The size of each mesh axis, which together have to use all
            devices. Without any, ``"data"`` has them all.

    Returns:
        The machine.

    Raises:
        ValueError: If there is no such machine, or if the axes don't have
            as many devices.
        ImportError: If the compiler is not installed. The message has the
            command that installs it. A test that should be skipped then
            calls ``pytest.importorskip("libtpu")`` first, or for GPUs
            ``pytest.importorskip("jax_plugins.xla_cuda12")``.

    Example:
        >>> from shardscope import machine, program
        >>> v5e = machine("v5e:2x4", data=2, model=4)  # doctest: +SKIP
        >>> w = jax.ShapeDtypeStruct((64, 16), "bfloat16")
        >>> x = jax.ShapeDtypeStruct((8, 64), "bfloat16")
        >>> arguments = v5e.place(  # doctest: +SKIP
        ...     (x, w), (P("data"), P(None, "model"))
        ... )
        >>> program(jax.numpy.matmul, *arguments).chip  # doctest: +SKIP
        'TPU v5 lite'
    """
    devices = devices_of(name)
    axes = axes or {"data": len(devices)}
    if math.prod(axes.values()) != len(devices):
        sizes = ", ".join(f"{axis}={n}" for axis, n in axes.items())
        raise ValueError(
            f"{name} has {len(devices)} devices, but {sizes} is a mesh of "
            f"{math.prod(axes.values())}"
        )
    return Machine(
        jax.make_mesh(
            tuple(axes.values()),
            tuple(axes),
            (AxisType.Explicit if explicit else AxisType.Auto,) * len(axes),
            devices=devices,
        )
    )
