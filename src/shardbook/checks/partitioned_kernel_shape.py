"""What a right ``partitioned_kernel_shape`` must show."""

from functools import partial
from operator import length_hint

import jax
from flax import linen as nn
from jax.sharding import PartitionSpec as P

from shardbook.grading import flax_spies, measures
from shardbook.grading.agreement import Rival, same, same_type
from shardbook.grading.attempt import guarded
from shardbook.grading.cases import Case, Seen

EXAMPLE = "partitioned_kernel_shape(0.0, normal(4, 16), 64.0)"
UNEVEN = "partitioned_kernel_shape(3.0, normal(5, 3), 7.0)"
OTHER_SHAPE = Case(
    "partitioned_kernel_shape(1.0, normal(2, 8), 32.0)",
    "where each Dense makes a kernel of 16 rows and 64 columns",
    partial(flax_spies.denses, 16, 64),
)
# A shape of its own, since what was traced before can't be watched.
WATCHED = Case(
    "partitioned_kernel_shape(11.0, normal(3, 8), 16.0)",
    under=flax_spies.denses,
)
structure = partial(same, "structure", WATCHED)
placement = partial(same, "placement", WATCHED)


def box(name: str, seen: Seen) -> str:
    """Describe the box of a parameter, and how many names it has."""
    for made in seen.noted[-1:]:
        found = made.params.get(name)
        if isinstance(found, nn.Partitioned):
            nested = isinstance(found.value, nn.Partitioned)
            kind = type(found).__name__ + (" of a box" if nested else "")
            # Names need not be a tuple: they may be None.
            return f"{kind}, names: {length_hint(found.names)}"
    return "no box"


def names(seen: Seen) -> list[object]:
    """Give the names of the kernel's axes, of any tuples of them too."""
    names = seen.noted[-1].params["kernel"].names
    return jax.tree.leaves(list(names), is_leaf=lambda each: each is None)


def where(seen: Seen) -> str:
    """Describe which device would hold which slice of the kernel."""
    kernel = seen.noted[-1].params["kernel"]
    return measures.describe_spec(kernel.value.shape, P(*kernel.names))


def drawn(seen: Seen) -> object:
    """Give what the initializer of the kernel draws from a known key."""
    layer = seen.noted[-1].layer
    arguments = (jax.random.key(5), (8, 16), layer.param_dtype)
    with guarded(seen.attempt.filename, seen.attempt.deprecations):
        return layer.kernel_init(*arguments).value


CHECKS = (
    same_type(EXAMPLE),
    same(
        "values",
        (EXAMPLE, UNEVEN, OTHER_SHAPE),
        measures.result,
        "the result is not the shape of the kernel that init makes on x: "
        "read [in_dim, features] there, not from the arguments",
    ),
    structure(
        partial(box, "kernel"),
        "init made a kernel without names: wrap its initializer in "
        "nn.with_partitioning",
        "A kernel without names",
        Rival(
            lambda *_: "Partitioned, names: 5",
            "a string is a tuple of letters: write a tuple with a comma",
            "A name that is no axis",
        ),
        Rival(
            lambda *_: "Partitioned, names: 1",
            "the kernel has fewer names than axes: the last is not sharded",
            "A tuple that is too short",
        ),
        Rival(
            lambda *_: "Partitioned, names: 3",
            "the kernel has more names than axes",
            "A tuple that is too long",
        ),
        Rival(
            lambda *_: "Partitioned of a box, names: 2",
            "a box in a box: wrap the initializer once",
            "The API",
        ),
        Rival(
            lambda *_: "LogicallyPartitioned, names: 2",
            "logical names say nothing without rules: name mesh axes",
            "The API",
        ),
    ),
    structure(
        partial(box, "bias"),
        "the bias has one axis, so its box has one name",
        "A tuple that is too long",
        agree=lambda found, _: found in ("no box", "Partitioned, names: 1"),
    ),
    structure(
        drawn,
        "the kernel has another initializer or dtype than lecun_normal",
    ),
    structure(
        lambda seen: seen.noted[-1].keys,
        "init was given another key than jax.random.key(seed)",
        # Where init is only traced, its key is never known.
        agree=lambda found, wanted: found in ([], wanted),
    ),
    placement(
        names,
        "a name is no axis of the mesh",
        "A name that is no axis",
        agree=lambda found, wanted: set(found) <= set(wanted),
    ),
    placement(
        where,
        "the names do not shard the columns of a kernel of this shape",
        "The API",
    ),
)
# What to read when an attempt raises: words of the error, a section.
ERRORS = (
    ("'Partitioned' object", "A box used as an array"),
    ("IndivisibleError", "The API"),
    ("has no attribute 'unfreeze'", "The API"),
    ("is not found in mesh", "A name that is no axis"),
)
DEPRECATED = "What changed since the source"
