"""What a right ``partitioned_kernel_shape`` must show."""

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import flax.core
import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from shardbook import observing
from shardbook.grading import (
    Attempt,
    Wrong,
    guarded,
    mesh_of,
    sample,
    show,
    would_hold,
)

EXAMPLE = (0.0, sample(4, 16), 64.0)
NAMES = {"kernel": (None, "model"), "bias": ("model",)}


@dataclass
class Kernel:
    """A kernel that a Dense has made.

    Attributes:
        params: The parameters of the layer, in their boxes if any.
        init: The initializer.
        path: Where in a larger module the layer is.
        numbers: The array, once it has numbers: under jax.jit that is
            later, and under jax.eval_shape never.
    """

    params: dict[str, Any]
    init: Any
    path: tuple[str, ...]
    numbers: list[jax.Array] = field(default_factory=list)

    @property
    def stored(self) -> Any:
        """The kernel as it is among the parameters."""
        return self.params["kernel"]

    @property
    def array(self) -> jax.Array:
        """The kernel without its box."""
        return opened(self.stored)

    @property
    def boxed(self) -> bool:
        """Whether it lies in a box with the names of its axes."""
        return isinstance(self.stored, nn.Partitioned)


def opened(stored: Any) -> jax.Array:
    """Give what is in a box, also while a mesh is set.

    There, nn.unbox would constrain it to its names.
    """
    (array,) = jax.tree.leaves(stored)
    return array


@contextmanager
def denses(times: int = 1) -> Iterator[list[Kernel]]:
    """Note each kernel that a Dense makes.

    Args:
        times: How many times as many rows and columns it is to have,
            whatever the attempt asks for.

    Yields:
        The kernels so far.
    """
    seen: list[Kernel] = []
    call = nn.Dense.__call__

    @functools.wraps(call)
    def watched(self: nn.Dense, inputs: jax.Array) -> jax.Array:
        # Where the layer is applied, it has a kernel already.
        fresh = not self.has_variable("params", "kernel")
        features = self.features
        object.__setattr__(self, "features", times * features)
        if times > 1:
            inputs = jnp.concatenate([inputs] * times, axis=-1)
        try:
            y = call(self, inputs)
        finally:
            object.__setattr__(self, "features", features)
        if fresh:
            params = dict(self.variables["params"])
            kernel = Kernel(params, self.kernel_init, self.scope.path)
            jax.debug.callback(kernel.numbers.append, kernel.array)
            seen.append(kernel)
        return y

    with observing.replaced(nn.Dense, "__call__", watched):
        yield seen


def boxed_kernels(
    attempt: Attempt, seed: int, x: jax.Array, features: int
) -> list[Kernel]:
    """Call the attempt, and insist that a Dense made a boxed kernel."""
    with denses() as seen:
        attempt(float(seed), x, float(features))
    jax.effects_barrier()
    boxed = [kernel for kernel in seen if kernel.boxed]
    if not seen:
        raise Wrong(
            "no nn.Dense was initialised",
            got="a shape from somewhere else",
            expected="the shape of the kernel that init made",
            read="Problem",
        )
    if not boxed:
        bare = describe(seen[-1].stored)
        raise Wrong(
            "init made a kernel without names: wrap its initializer in "
            "nn.with_partitioning",
            got=f"a bare {bare}",
            expected=f"Partitioned {NAMES['kernel']} of {bare}",
            read="A kernel without names",
        )
    return boxed


def contract(attempt: Attempt) -> None:
    """A float32 array with one number for each axis of the kernel."""
    attempt.returns_array((2,), *EXAMPLE)


def values(attempt: Attempt) -> None:
    """The shape of the kernel that a Dense made, whatever it is."""
    for arguments, expected in (
        (EXAMPLE, (16, 64)),
        ((3.0, sample(5, 3), 7.0), (3, 7)),
    ):
        attempt.returns(
            expected,
            *arguments,
            why="the shape of the kernel is [in_dim, features]",
            read="Problem",
        )
    with denses(times=2):
        attempt.returns(
            (16, 64),
            *(1.0, sample(2, 8), 32.0),
            given="where each Dense makes twice the rows and columns",
            why="the result is not the shape of the kernel that init made: "
            "read it there, not from the arguments",
            read="Problem",
        )


def structure(attempt: Attempt) -> None:
    """The kernel is boxed by its initializer, and drawn from the seed."""
    seed, x, features = 11, sample(3, 8), 16
    for kernel in boxed_kernels(attempt, seed, x, features):
        for name, stored in kernel.params.items():
            if isinstance(stored, nn.Partitioned):
                insist_on_names(name, stored)
        insist_on_initializer(attempt, kernel)
        insist_on_seed(kernel, seed, x, features)


def insist_on_names(name: str, box: nn.Partitioned) -> None:
    """There is one name, or None, for each axis of a parameter."""
    names, array = box.names, opened(box)
    if isinstance(names, str):
        why = "a string is a tuple of letters: write a tuple with a comma"
        read = "A name that is no axis"
    elif not hasattr(names, "__len__"):
        why = f"the names of the {name} are no tuple"
        read = "The API"
    elif len(names) < array.ndim:
        why = f"the {name} has fewer names than axes: the last stay uncut"
        read = "A tuple that is too short"
    elif len(names) > array.ndim:
        why = f"the {name} has more names than axes"
        read = "A tuple that is too long"
    elif isinstance(box.value, nn.Partitioned):
        why = "a box in a box: wrap the initializer once"
        read = "The API"
    elif isinstance(box, nn.LogicallyPartitioned):
        why = "logical names say nothing without rules: name mesh axes"
        read = "The API"
    else:
        return
    wanted = NAMES.get(name, "one name for each axis")
    raise Wrong(
        why,
        got=describe(box),
        expected=f"Partitioned {wanted} of {jax.typeof(array)}",
        read=read,
    )


def describe(stored: Any) -> str:
    """Say what is in a box, and what its names are."""
    if isinstance(stored, jax.Array):
        return str(jax.typeof(stored))
    kind = type(stored).__name__
    if not isinstance(stored, nn.Partitioned):
        return kind
    return f"{kind} {stored.names!r} of {describe(stored.value)}"


def insist_on_initializer(attempt: Attempt, kernel: Kernel) -> None:
    """It is lecun_normal, whether it was made or only traced."""
    arguments = (jax.random.key(5), (8, 16), jnp.float32)
    with guarded(attempt.filename, attempt.deprecations):
        got = opened(kernel.init(*arguments))
    expected = nn.initializers.lecun_normal()(*arguments)
    if not same(got, expected):
        raise Wrong(
            "the kernel has another initializer than lecun_normal",
            got=show(got),
            expected=show(expected),
            read="Problem",
        )


def insist_on_seed(
    kernel: Kernel, seed: int, x: jax.Array, features: int
) -> None:
    """Its numbers are those of a Dense without names."""
    expected = plain_kernel(seed, x, features, kernel.path)
    for got in kernel.numbers:
        if not same(got, expected):
            raise Wrong(
                "it is not the kernel of a plain Dense with "
                f"jax.random.key({seed})",
                got=show(got),
                expected=show(expected),
                read="Problem",
            )


def plain_kernel(
    seed: int, x: jax.Array, features: int, path: tuple[str, ...]
) -> jax.Array:
    """Make the kernel of a Dense without names.

    Its numbers depend on where in a larger module it is.
    """
    rngs = {"params": jax.random.key(seed)}
    scope = flax.core.bind({}, rngs=rngs, mutable=True)
    for name in path:
        scope = scope.push(name)
    nn.Dense(features, parent=scope)(x)
    return scope.get_variable("params", "kernel")


def same(got: Any, expected: jax.Array) -> bool:
    """Tell whether two arrays are the same, but for rounding."""
    return np.shape(got) == expected.shape and np.allclose(
        got, expected, rtol=1e-4, atol=1e-5
    )


def placement(attempt: Attempt) -> None:
    """The names put a slice of the columns on each device."""
    mesh, x, features = mesh_of(), sample(3, 8), 32
    cut = NamedSharding(mesh, P(None, "model"))
    expected = would_hold((8, features), cut)
    for kernel in boxed_kernels(attempt, 2, x, features):
        got = {
            name: layout_on(mesh, name, stored)
            for name, stored in kernel.params.items()
        }
        if got["kernel"] != expected:
            raise Wrong(
                f"the names {kernel.stored.names!r} do not cut the columns",
                got=got["kernel"],
                expected=expected,
                read="The API",
            )


def layout_on(mesh: Mesh, name: str, stored: Any) -> str:
    """Say what each device would hold of a parameter."""
    try:
        sharding = nn.get_sharding(stored, mesh)
        held = would_hold(opened(stored).shape, sharding)
    # Also of jax's own kinds, by what is wrong with the names.
    except Exception as error:
        known = all(each in NAMES["kernel"] for each in stored.names)
        raise Wrong(
            f"the names {stored.names!r} can't cut a {name} by the axes of "
            "the mesh",
            got=str(error).splitlines()[0],
            expected='one None or "model" for each axis, "model" once',
            read="The API" if known else "A name that is no axis",
        ) from None
    return held


# What to read when an attempt raises: words of the error, a section.
ERRORS = (
    ("'Partitioned' object", "A box used as an array"),
    ("IndivisibleError", "The API"),
    ("has no attribute 'unfreeze'", "The API"),
    ("is not found in mesh", "A name that is no axis"),
)
CHECKS = (contract, values, structure, placement)
