"""What a right ``state_zero_kernel`` must show.

Any route counts that makes the kernel zeros by its name in the state. A
write to ``model.kernel`` needs no state, and does not count. A rule may
look for "kernel" anywhere in a path: that is remarked on, not refused.
"""

from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
from flax import nnx

from shardgrade.checks import _flax
from shardgrade.grading import measures, same

EXAMPLE = "state_zero_kernel(0.0, normal(3, 4), 16.0)"


def add_leaves(model: Any) -> None:
    """Add leaves of the kernel's shape, and make the kernel infinite."""
    model.initial = nnx.Param(model.kernel[...])
    model.scale = nnx.Param(jnp.asarray(np.full((4, 16), 3.0)))
    model.kernel.set_value(jnp.asarray(np.full((4, 16), np.inf)))


# What was traced before is not traced again, and can't be watched: each of
# these has a seed and a shape of x of its own.
ALTERED = same.Case(
    "state_zero_kernel(4e9, normal(5, 4), 16.0)",
    "where Linear has an infinite kernel, more leaves and twice its output",
    partial(_flax.watched, init=add_leaves, output=lambda _, y: 2 * y),
)


def shard(model: Any) -> None:
    """Lay out the Linear, and add a leaf whose name ends in "kernel"."""
    _flax.lay_out(model, dtype=jnp.bfloat16)
    model.first_kernel = nnx.Param(model.kernel[...])


SHARDED = same.Case(
    "state_zero_kernel(3.0, normal(2, 4), 16.0)",
    "where Linear is sharded over all devices, with a bfloat16 kernel",
    partial(_flax.watched, init=shard),
)


def find_held(name: str, seen: same.Seen) -> Any:
    """Give what a Param held in the call of the Linear that was zeroed."""
    calls = _flax.visible_calls(_flax.visible(seen).noted)
    call = ([c for c in calls if not np.any(c.held["kernel"])] or calls)[-1]
    is_param = isinstance(getattr(call.module, name), nnx.Param)
    return call.held[name] if is_param else "no Param"


def route(seen: same.Seen) -> str:
    """Tell whether a State was made, or a Module mapped as a tree."""
    noted = _flax.visible(seen).noted
    mapped = any(isinstance(tree, nnx.Module) for tree in noted.trees)
    return "a state" if noted.states or mapped else "no state"


PLAIN = (
    "state_zero_kernel(0.0, normal(4), 16.0)",
    "state_zero_kernel(7.0, normal(2, 1, 4), 1.0)",
    "state_zero_kernel(2.0, (9 * normal(6, 4)).astype(int), 16.0)",
)
structure = partial(same.structure, ALTERED)
placement = partial(same.placement, SHARDED)
CALLED = "the Linear that was called"
HELD = (
    (
        "kernel",
        f"the kernel of {CALLED} is not a Param of zeros",
        "Problem",
    ),
    ("bias", f"the bias of {CALLED} is not a Param of ones", "Problem"),
    ("scale", "another leaf changed: select the kernel by name", "The API"),
    ("initial", f"{CALLED} has another seed", "Problem"),
)
WRITES = "Replacing the value, or writing into it"
CHECKS = {
    "types": same.types(PLAIN),
    "zeros": same.values(
        "state_zero_kernel(11.0, 100 * normal(3, 4), 16.0)",
        measures.result,
        "the bias of ones is all that should be left",
        read="The API",
    ),
    "nan": same.values(
        "state_zero_kernel(1.0, with_nan(normal(3, 4)), 16.0)",
        measures.result,
        "a NaN of x is not in the output: a zeroed kernel still multiplies "
        "x, and 0 * NaN is NaN",
    ),
    "infinite": structure(
        partial(find_held, "kernel"),
        "zeros that are computed from an infinite kernel are NaN",
        read="On eight devices",
        agree=lambda found, _: "nan" not in str(found),
    ),
    **same.numbered("held")(
        structure(partial(find_held, name), why, read=read)
        for name, why, read in HELD
    ),
    "split": structure(route, "split the model, and map its state by path"),
    "output": structure(
        lambda seen: _flax.visible(seen).result,
        f"the result is not what {CALLED} gave for x",
    ),
    "kernel_layout": placement(
        lambda seen: measures.describe_shards(find_held("kernel", seen)),
        "the kernel lost its layout or its dtype",
        read="On eight devices",
    ),
    "bias_layout": placement(
        lambda seen: measures.describe_shards(find_held("bias", seen)),
        "the bias lost its layout or its dtype",
    ),
    "substring": same.remark(
        SHARDED,
        partial(find_held, "first_kernel"),
        "a leaf named first_kernel would become zeros too",
        read="A substring for a name",
    ),
}
# What to read when an attempt raises: words of the error, a section.
ERRORS = (("incompatible devices|broadcast", WRITES),)
DEPRECATED = WRITES
