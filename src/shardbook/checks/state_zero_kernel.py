"""What a right ``state_zero_kernel`` must show.

Any route counts on which the kernel becomes zeros by its name in the state:
a map by path, ``nnx.map_state``, a filter, a write into the state, a map
over the Module as a tree. ``nnx.merge`` or ``nnx.update`` may end it. A
write to ``model.kernel`` needs no state, and does not count.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.sharding import NamedSharding, PartitionSpec as P

from shardbook import observing
from shardbook.grading import (
    Attempt,
    Wrong,
    mesh_of,
    sample,
    show,
    who_holds,
)

EXAMPLE = (0.0, sample(3, 4), 16.0)


def contract(attempt: Attempt) -> None:
    """A float32 array, with the leading axes of x."""
    attempt.returns_array((16,), 0.0, sample(4), 16.0)
    attempt.returns_array((2, 3, 16), 7.0, sample(2, 3, 4), 16.0)


def values(attempt: Attempt) -> None:
    """Ones where x is finite, and NaN where it is not."""
    attempt.returns(
        np.ones((3, 16)),
        *(11.0, 100 * sample(3, 4, seed=1), 16.0),
        why="the bias of ones is all that should be left",
        read="The API",
    )
    x = sample(3, 4, seed=2).at[1, 2].set(jnp.nan)
    attempt.returns(
        np.array([[1.0] * 16, [np.nan] * 16, [1.0] * 16]),
        *(1.0, x, 16.0),
        given="of which the second row has a NaN",
        why="a zeroed kernel still multiplies x, and 0 * NaN is NaN",
        read="Zero times NaN",
    )


def structure(attempt: Attempt) -> None:
    """The kernel is zeroed by its name, in the state of a Linear."""
    kernel = nnx.Linear(4, 16, rngs=nnx.Rngs(5)).kernel[...]
    others = {"first_kernel": kernel, "kernel_scale": jnp.full((16,), 3.0)}

    def add_leaves(model: nnx.Linear) -> None:
        model.first_kernel = nnx.Param(model.kernel[...])
        model.kernel_scale = nnx.Param(others["kernel_scale"])
        model.kernel[...] = jnp.full((4, 16), jnp.inf)

    with taken_apart() as trees:
        got, call = watched(
            attempt,
            *(5.0, sample(5, 4), 16.0),
            given="where Linear has an infinite kernel, a first_kernel, a "
            "kernel_scale, and gives twice its output",
            init=add_leaves,
            output=lambda model, y: 2 * y,
        )
    insist_on_parameters(call)
    insist_on_others(call.module, others)
    if not trees:
        raise Wrong(
            "the kernel was zeroed without the state: split the model, and "
            "map its state by path",
            got="a Linear that was never taken apart",
            expected="zeros for the kernel in its state",
            read="The API",
        )
    if not np.array_equal(got, np.full((5, 16), 2.0)):
        raise Wrong(
            "the result is not what the merged Linear gave for x",
            got=show(got),
            expected=show(jnp.full((5, 16), 2.0)),
            read="Problem",
        )


def placement(attempt: Attempt) -> None:
    """Bias and kernel lie afterwards where they lay before."""
    mesh = mesh_of()
    before = {
        name: jax.device_put(array, NamedSharding(mesh, spec))
        for name, array, spec in (
            ("kernel", jnp.ones((4, 16), jnp.bfloat16), P(None, "model")),
            ("bias", jnp.zeros(16), P("model")),
        )
    }

    def place(model: nnx.Linear) -> None:
        for name, array in before.items():
            getattr(model, name).set_value(array)

    _, call = watched(
        attempt,
        *(3.0, sample(2, 4), 16.0),
        given=f"where Linear is cut over {mesh.size} devices, and its "
        "kernel is bfloat16",
        init=place,
    )
    held = {"kernel": call.kernel, "bias": call.bias}
    for name, array in before.items():
        if who_holds(held[name]) != who_holds(array):
            raise Wrong(
                f"the {name} lost its layout or its dtype",
                got=who_holds(held[name]),
                expected=who_holds(array),
                read="Zeros of the right shape"
                if name == "kernel"
                else "A new value instead of a new content",
            )


@contextmanager
def taken_apart() -> Iterator[list[Any]]:
    """Note each state that is made, and each Module mapped as a tree."""
    seen: list[Any] = []
    make = nnx.State.__init__

    def noted(self: nnx.State, *args: Any, **kwargs: Any) -> None:
        seen.append(self)
        make(self, *args, **kwargs)

    with (
        observing.replaced(nnx.State, "__init__", noted),
        observing.trees() as trees,
    ):
        yield seen
    seen += [tree for tree in trees if isinstance(tree, nnx.Module)]


def watched(
    attempt: Attempt, *arguments: Any, given: str, **twin: Any
) -> tuple[Any, observing.LinearCall]:
    """Give the result, and the call of the Linear that was zeroed.

    What was traced before is not traced again, and can't be watched: so
    each of these calls needs a seed and a shape of x of its own.
    """
    # Inside of jit there are no arrays to look at, and what it has
    # compiled may be used again: without jit, all can be seen.
    for way in (nullcontext(), jax.disable_jit()):
        with way, observing.linears(**twin) as seen:
            got = attempt(*arguments, given=given)
        calls = [
            call
            for call in seen.calls
            if not isinstance(call.kernel, jax.core.Tracer)
        ]
        if seen.built and calls:
            zeroed = [c for c in calls if not jnp.any(c.kernel)]
            return got, (zeroed or calls)[-1]
    raise Wrong(
        "no Linear was built and called on x",
        got="an array from somewhere else",
        expected="the output of the merged Linear",
        read="Problem",
    )


def insist_on_parameters(call: observing.LinearCall) -> None:
    """Insist on Params: a kernel of zeros, and a bias of ones."""
    for name, array, expected, why, read in (
        (
            *("kernel", call.kernel, jnp.zeros((4, 16))),
            "the kernel was not replaced by zeros: inf * 0 is NaN",
            "Zeros of the right shape",
        ),
        (
            *("bias", call.bias, jnp.ones(16)),
            "the Linear that was called has no bias of ones",
            "Problem",
        ),
    ):
        if array is None or not np.array_equal(array, expected):
            raise Wrong(
                why,
                got=f"{name} {show(array)}",
                expected=f"{name} {show(expected)}",
                read=read,
            )
        kind = type(getattr(call.module, name))
        if not issubclass(kind, nnx.Param):
            raise Wrong(
                f"the {name} is no longer a Param: write into the one that "
                "is there",
                got=f"{name}: {kind.__name__}",
                expected=f"{name}: Param",
                read="An array in the place of a Variable",
            )


def insist_on_others(
    model: nnx.Linear, others: dict[str, jax.Array]
) -> None:
    """Insist that the leaves of other names are as they were."""
    for name, expected in others.items():
        leaf = getattr(model, name)[...]
        if not jnp.any(leaf):
            why, read = (
                f"{name} was zeroed too: match the whole name of a leaf, "
                "not a part of it, and not its shape",
                "A substring for a name",
            )
        elif not jnp.allclose(leaf, expected, atol=1e-4):
            why, read = (
                f"{name} is another than it was: the seed makes it, and "
                "only the kernel changes",
                "Problem",
            )
        else:
            continue
        raise Wrong(
            why,
            got=f"{name} {show(leaf)}",
            expected=f"{name} {show(expected)}",
            read=read,
        )


# What to read when an attempt raises: words of the error, a section.
ERRORS = (
    ("missing 1 required positional argument", "A map without a path"),
    (
        "'NoneType' object",
        "A path through the function that returns nothing",
    ),
    ("'State' object is not callable", "A state is not a model"),
    (
        "'Array' object|'ArrayImpl' object",
        "An array in the place of a Variable",
    ),
)
CHECKS = (contract, values, structure, placement)
