"""Work out the shape of a shard, and what is wrong with a spec."""

import math

from jax.sharding import Mesh, PartitionSpec as P

Shape = tuple[int, ...]


def shard_shape(shape: Shape, spec: P, mesh: Mesh) -> Shape:
    """Return the shape that an array has on each device.

    Args:
        shape: Shape of the whole array.
        spec: For each axis of the array the mesh axis that shards it, a
            tuple of several, or None. Axes for which it has no entry are
            not sharded.
        mesh: Mesh; ``mesh.shape`` has the devices along each of its axes.

    Returns:
        The shape of a shard, the same on all devices.

    Raises:
        ValueError: If the spec has more entries than the array has axes,
            names an axis that the mesh does not have, names one twice, or
            divides a size between devices that do not divide it.

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
