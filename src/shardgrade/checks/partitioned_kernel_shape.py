"""What a right ``partitioned_kernel_shape`` must show."""

from functools import partial
from operator import length_hint

import jax
from flax import linen as nn
from jax.sharding import PartitionSpec as P

from shardgrade.checks import _flax
from shardgrade.grading import measures, same


def box(name: str, seen: same.Seen) -> str:
    """Describe the box of a parameter, and how many names it has."""
    found = seen.noted and seen.noted[-1].params.get(name)
    if not isinstance(found, nn.Partitioned):
        return "no box"
    inner = " of a box" * isinstance(found.value, nn.Partitioned)
    # Names may be None, which has no length.
    names = length_hint(found.names)
    return f"{type(found).__name__}{inner}, names: {names}"


def drawn(seen: same.Seen) -> object:
    """Give what the initializer of the kernel draws from a known key."""
    layer = seen.noted[-1].layer
    key, shape = jax.random.key(5), (8, 16)
    return layer.kernel_init(key, shape, layer.param_dtype).value


EXAMPLE = "partitioned_kernel_shape(0.0, normal(5, 3), 7.0)"
ALL_ALTERED = same.Case(
    "partitioned_kernel_shape(3, normal(5, 8).astype(int), 24)",
    "where each Dense makes a kernel of 16 rows and 64 columns",
    partial(_flax.denses, 16, 64),
)
# A new shape, so that it is traced; a seed that float32 does not hold.
WATCHED = same.Case(
    "partitioned_kernel_shape(3000000001.0, normal(3, 8), 16.0)",
    under=_flax.denses,
)
structure = partial(same.structure, WATCHED)
CHECKS = {
    "types": same.types(EXAMPLE),
    "shape": same.values(
        (EXAMPLE, ALL_ALTERED),
        measures.result,
        "this is not the shape [in_dim, features] of the kernel in the box",
    ),
    "kernel_box": structure(
        partial(box, "kernel"),
        "wrap the initializer of the kernel once in nn.with_partitioning, "
        "with a tuple that has one name for each dimension",
        read="The API",
    ),
    "bias_box": structure(
        partial(box, "bias"),
        "a box around the bias must be an nn.Partitioned with one name",
        agree=lambda found, _: found in ("no box", "Partitioned, names: 1"),
    ),
    "kernel": structure(
        drawn, "the kernel must be float32, drawn by lecun_normal"
    ),
    "key": structure(
        lambda seen: seen.noted[-1].keys,
        "init must be given jax.random.key(seed)",
        # Where init is only traced, its key is never known.
        agree=lambda found, wanted: found in ([], wanted),
    ),
    "columns": same.placement(
        WATCHED,
        lambda seen: P(*seen.noted[-1].params["kernel"].names),
        'shard the columns of the kernel over "model", not the rows',
        read="The API",
    ),
}
# What to read when an attempt raises: words of the error, a section.
ERRORS = (
    ("'Partitioned' object", "A box used as an array"),
    ("is not found in mesh", "Names that don't fit the array"),
    ("acts as an assert", "On eight devices"),
    ("must be a `NamedSharding`", "On eight devices"),
)
