"""Compute the shape of a shard, and say what is wrong with a spec."""

import math

from jax.sharding import Mesh, PartitionSpec as P

Shape = tuple[int, ...]


def shard_shape(shape: Shape, spec: P, mesh: Mesh) -> Shape:
    """Return the shape of each device's shard.

    Args:
        shape: Shape of the array.
        spec: A mesh axis, a tuple of mesh axes or None for each dimension
            of the array. Dimensions without an entry are unsharded.
        mesh: Mesh; ``mesh.shape`` maps each axis to its number of devices.

    Returns:
        The shape of a shard, which is the same on all devices.

    Raises:
        ValueError: If the spec has more entries than the array has
            dimensions: the message names both numbers. If it names an
            axis that the mesh doesn't have: that axis, and the axes of the
            mesh. If it names an axis twice: the axis. If it shards an
            indivisible dimension: the size, the number of devices, and
            the mesh axes of the entry.

    Example:
        On a mesh of 2 by 4, ``shard_shape((16, 24), P("data", "model"),
        mesh)`` is ``(8, 6)``.

    References:
        JAX, *Parallel programming*,
        https://docs.jax.dev/en/latest/parallel.html
    """
    # --- solution ---
    if len(spec) > len(shape):
        entries, axes = len(spec), len(shape)
        raise ValueError(f"{spec}: {entries} entries for {axes} array axes")
    sizes, used = list(shape), set()
    for axis, entry in enumerate(spec):
        names = (entry,) if isinstance(entry, str) else entry or ()
        for name in names:
            if name not in mesh.shape:
                raise ValueError(f"{name!r} is not in {mesh.axis_names}")
            if name in used:
                raise ValueError(f"{spec}: mesh axis {name!r} occurs twice")
            used.add(name)
        devices = math.prod(mesh.shape[name] for name in names)
        if shape[axis] % devices:
            along = f"the {devices} devices along {entry!r}"
            raise ValueError(
                f"{along} do not divide a size of {shape[axis]}"
            )
        sizes[axis] //= devices
    return tuple(sizes)
