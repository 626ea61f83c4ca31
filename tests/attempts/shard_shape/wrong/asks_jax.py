# wrong: shape
"""JAX is asked, and its errors are turned into another class."""

from jax.sharding import NamedSharding


def shard_shape(shape, spec, mesh):
    if len(spec) > len(shape):
        raise ValueError(f"{len(spec)} entries, {len(shape)} axes")
    return NamedSharding(mesh, spec).shard_shape(shape)
