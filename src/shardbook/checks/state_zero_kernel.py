"""What a right ``state_zero_kernel`` must show."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.sharding import NamedSharding, PartitionSpec as P

from shardbook import observing
from shardbook.grading import Attempt, Wrong, mesh_of, sample, show

EXAMPLE = (0.0, sample(32, 16), 64.0)


def contract(attempt: Attempt) -> None:
    """A float32 array, with the leading axes of x."""
    attempt.returns_array((6,), 0.0, sample(4), 6.0)
    attempt.returns_array((2, 3, 5), 7.0, sample(2, 3, 4), 5.0)


def values(attempt: Attempt) -> None:
    """Ones where x is finite, and NaN where it is not."""
    attempt.returns(
        np.ones((3, 7)),
        *(11.0, 100 * sample(3, 5, seed=1), 7.0),
        why="the bias of ones is all that should be left",
        read="The API",
    )
    x = sample(3, 4, seed=2).at[1, 2].set(jnp.nan)
    attempt.returns(
        np.array([[1.0] * 2, [np.nan] * 2, [1.0] * 2]),
        *(1.0, x, 2.0),
        given="of which the second row has a NaN",
        why="a zeroed kernel still multiplies x, and 0 * NaN is NaN",
        read="Zero times NaN",
    )


def structure(attempt: Attempt) -> None:
    """The kernel is zeroed by its name, in the state of a Linear."""
    x = sample(3, 4)

    def add_leaves(model: nnx.Linear) -> None:
        model.kernel_scale = nnx.Param(jnp.full((4,), 2.0))
        model.square = nnx.Param(jnp.full((4, 4), 3.0))
        model.kernel.set_value(jnp.full((4, 6), jnp.inf))

    given = (
        "where Linear has a kernel_scale, a square and an infinite kernel"
    )
    with observing.linears(init=add_leaves) as seen:
        attempt.returns(
            np.ones((3, 6)),
            *(0.0, x, 6.0),
            given=given,
            why="the kernel was not replaced by zeros: inf * 0 is NaN",
            read="Zeros of the right shape",
        )
    if not seen.calls:
        raise Wrong(
            "no Linear was called on x",
            got="an array from somewhere else",
            expected="the output of the merged Linear",
            read="Problem",
        )
    last = seen.calls[-1]
    if last.kernel.shape != (4, 6) or jnp.any(last.kernel != 0):
        raise Wrong(
            "the Linear that was called has another kernel than zeros",
            got=show(last.kernel),
            expected=show(jnp.zeros((4, 6))),
            read="The API",
        )
    for name, expected in (("kernel_scale", 2.0), ("square", 3.0)):
        leaf = getattr(last.module, name)[...]
        if jnp.any(leaf != expected):
            raise Wrong(
                f"{name} was zeroed too: match the name of the leaf, not a "
                "part of it, and not its shape",
                got=f"{name} {show(leaf)}",
                expected=f"{name} as it was, all {expected}",
                read="A substring for a name",
            )


def placement(attempt: Attempt) -> None:
    """Bias and kernel lie afterwards where they lay before."""
    mesh = mesh_of()
    specs = {"kernel": P(None, "model"), "bias": P("model")}

    def place(model: nnx.Linear) -> None:
        for name, spec in specs.items():
            variable = getattr(model, name)
            array = variable.get_value()
            variable.set_value(
                jax.device_put(array, NamedSharding(mesh, spec))
            )

    given = "where Linear is cut over eight devices"
    with observing.linears(init=place) as seen:
        attempt(0.0, sample(2, 4), 16.0, given=given)
    held = {"kernel": seen.calls[-1].kernel, "bias": seen.calls[-1].bias}
    for name, spec in specs.items():
        expected = NamedSharding(mesh, spec)
        sharding = held[name].sharding
        if not sharding.is_equivalent_to(expected, held[name].ndim):
            raise Wrong(
                f"the {name} lost its layout",
                got=layout_of(held[name]),
                expected=f"{spec}: {expected.shard_shape(held[name].shape)}"
                " on each of 8 devices",
                read="Zeros of the right shape"
                if name == "kernel"
                else "A new value instead of a new content",
            )


def layout_of(array: jax.Array) -> str:
    """Say in a line where an array lies."""
    devices = len(array.sharding.device_set)
    shard = array.sharding.shard_shape(array.shape)
    where = f"each of {devices} devices" if devices > 1 else "one device"
    return f"{shard} on {where}"


CHECKS = (contract, values, structure, placement)
