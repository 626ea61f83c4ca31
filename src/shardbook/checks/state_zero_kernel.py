"""What a right ``state_zero_kernel`` must show.

Any route counts on which the kernel becomes zeros by its name in the state:
a map by path, ``nnx.map_state``, a filter, a write into the state, a map
over the Module as a tree. ``nnx.merge`` or ``nnx.update`` may end it. A
write to ``model.kernel`` needs no state, and does not count.
"""

from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
from flax import nnx

from shardbook.grading import flax_spies, measures
from shardbook.grading.agreement import same, same_type
from shardbook.grading.cases import Case, Seen

EXAMPLE = "state_zero_kernel(0.0, normal(3, 4), 16.0)"


def add_leaves(model: Any) -> None:
    """Add leaves with "kernel" in their names, and an infinite kernel."""
    model.first_kernel = nnx.Param(model.kernel[...])
    model.kernel_scale = nnx.Param(jnp.asarray(np.full(16, 3.0)))
    model.kernel.set_value(jnp.asarray(np.full((4, 16), np.inf)))


# What was traced before is not traced again, and can't be watched: each of
# these has a seed and a shape of x of its own.
ALTERED = Case(
    "state_zero_kernel(5.0, normal(5, 4), 16.0)",
    "where Linear has an infinite kernel, a first_kernel, a kernel_scale, "
    "and gives twice its output",
    partial(flax_spies.watched, init=add_leaves, output=lambda _, y: 2 * y),
)
SHARDED = Case(
    "state_zero_kernel(3.0, normal(2, 4), 16.0)",
    "where Linear is sharded over all devices, with a bfloat16 kernel",
    partial(
        flax_spies.watched,
        init=partial(flax_spies.lay_out, dtype=jnp.bfloat16),
    ),
)


def zeroed(seen: Seen) -> flax_spies.LinearCall:
    """Give the call of the Linear that was zeroed."""
    calls = flax_spies.visible_calls(flax_spies.visible(seen).noted)
    return ([c for c in calls if not np.any(c.held["kernel"])] or calls)[-1]


def held(names: str, seen: Seen) -> dict[str, Any]:
    """Give arrays that the zeroed Linear held, by name."""
    return {name: zeroed(seen).held.get(name) for name in names.split()}


def where(name: str, seen: Seen) -> str:
    """Describe which device held which slice of an array."""
    return measures.describe_shards(zeroed(seen).held[name])


def kept_in(seen: Seen) -> list[bool]:
    """Tell of kernel and bias whether they are still in Params."""
    module = zeroed(seen).module
    return [isinstance(v, nnx.Param) for v in (module.kernel, module.bias)]


def route(seen: Seen) -> str:
    """Describe whether a State was made, or a Module mapped as a tree."""
    noted = flax_spies.visible(seen).noted
    if noted.states or any(isinstance(t, nnx.Module) for t in noted.trees):
        return "zeros for the kernel in its state"
    return "a Linear that was never split or mapped"


structure = partial(same, "structure", ALTERED)
placement = partial(same, "placement", SHARDED)
CHECKS = (
    same_type(
        "state_zero_kernel(0.0, normal(4), 16.0)",
        "state_zero_kernel(7.0, normal(2, 3, 4), 16.0)",
    ),
    same(
        "values",
        "state_zero_kernel(11.0, 100 * normal(3, 4), 16.0)",
        measures.result,
        "the bias of ones is all that should be left",
        "The API",
    ),
    same(
        "values",
        "state_zero_kernel(1.0, with_nan(normal(3, 4)), 16.0)",
        measures.result,
        "a zeroed kernel still multiplies x, and 0 * NaN is NaN",
        "Zero times NaN",
    ),
    structure(
        partial(held, "kernel"),
        "the kernel was not replaced by zeros: inf * 0 is NaN",
        "Zeros of the right shape",
    ),
    structure(
        partial(held, "bias"),
        "the Linear that was called has no bias of ones",
    ),
    structure(
        kept_in,
        "a Param was replaced: write into the one that is there",
        "An array in the place of a Variable",
    ),
    structure(
        partial(held, "first_kernel kernel_scale"),
        "another leaf changed too: match the whole name of a leaf, not a "
        "part of it, and not its shape",
        "A substring for a name",
    ),
    structure(
        route,
        "the state was not used: split the model, and map it by path",
        "The API",
    ),
    structure(
        lambda seen: flax_spies.visible(seen).result,
        "the result is not what the merged Linear gave for x",
    ),
    placement(
        partial(where, "kernel"),
        "the kernel lost its layout or its dtype",
        "Zeros of the right shape",
    ),
    placement(
        partial(where, "bias"),
        "the bias lost its layout or its dtype",
        "A new value instead of a new content",
    ),
)
# What to read when an attempt raises: words of the error, a section.
ERRORS = (
    ("missing 1 required positional", "A map without a path"),
    ("'NoneType'", "A path through the function that returns nothing"),
    ("'State' object is not callable", "A state is not a model"),
    ("'Array(Impl)?' object", "An array in the place of a Variable"),
)
DEPRECATED = "What changed since the source"
