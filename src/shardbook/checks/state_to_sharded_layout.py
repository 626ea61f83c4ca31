"""What a right ``state_to_sharded_layout`` must show."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P, Sharding

from shardbook import observing
from shardbook.grading import (
    Attempt,
    Crashed,
    NotWritten,
    Wrong,
    mesh_of,
    sample,
    show,
    would_hold,
)

EXAMPLE = (0.0, sample(4, 8), 8.0)
SPECS = {"kernel": P(None, "model"), "bias": P("model")}
NO_BIAS = "where Linear has no bias"
NOT_ALWAYS = "Not always two leaves, and not in that order"
CUTS = {
    "kernel": ("its last axis, its columns", "The API"),
    "bias": (
        "its only axis, as the columns that it belongs to",
        "A bias that is not paired with its kernel",
    ),
}
WHAT_ELSE = (
    (
        P,
        "the specs are not in a tree of the state's structure: map the "
        "state, or unflatten them with its treedef",
        "The API",
    ),
    (
        Sharding,
        "the leaves are tied to devices: a PartitionSpec names mesh axes, "
        "and fits any mesh that has them",
        "A spec without a mesh",
    ),
    (
        str,
        "the leaves are no PartitionSpecs: to jax a tuple is a tree, and a "
        "string is just a string",
        "The API",
    ),
)


def contract(attempt: Attempt) -> None:
    """A float32 array of one number, for any whole features."""
    attempt.returns_array((1,), 0.0, sample(7, 3), 5.0)


def values(attempt: Attempt) -> None:
    """As many as the state has arrays, whichever it has."""
    attempt.returns(
        [2.0],
        *(2.0, sample(7, 3), 5.0),
        why="a Linear has two arrays, with a spec each: P() counts as a "
        "leaf, None does not",
        read='`None` for "not sharded"',
    )
    x = sample(4, 8)
    with _changed(use_bias=False):
        attempt.returns(
            [1.0],
            *(3.0, x, 8.0),
            given=NO_BIAS,
            why="the number is not counted from the specs of this state",
            read=NOT_ALWAYS,
        )

    def add_leaves(model: nnx.Linear) -> None:
        model.scale = nnx.Param(jnp.full((8,), 2.0))
        model.table = nnx.Param(jnp.full((4, 4), 3.0))

    # A rule that knows a kernel and a bias only may refuse other leaves.
    with _changed(init=add_leaves), _a_refusal_is_fine():
        attempt.returns(
            [4.0],
            *(4.0, x, 8.0),
            given="where Linear has a scale and a table too",
            why="each array of the state gets a spec, also one that is "
            "neither kernel nor bias",
            read=NOT_ALWAYS,
        )

    def tie(model: nnx.Linear) -> None:
        model.tied = model.kernel

    with _changed(init=tie), _a_refusal_is_fine():
        attempt.returns(
            [2.0],
            *(5.0, x, 8.0),
            given="where Linear holds its kernel by a second name too",
            why="a state has a shared kernel once, a Module twice: split "
            "first, and map the state",
            read="Why to split all the same",
        )


@contextmanager
def _changed(**changes: Any) -> Iterator[observing.Linears]:
    """Watch the Linears, and change them; what was compiled is unused.

    What an attempt traced for another Linear must not answer for this one.
    """
    with observing.linears(**changes) as seen, jax.disable_jit():
        yield seen


@contextmanager
def _a_refusal_is_fine() -> Iterator[None]:
    """Let an attempt raise in a place that nobody promised it to know."""
    with suppress(Crashed, NotWritten):
        yield


def structure(attempt: Attempt) -> None:
    """A tree like the state of the Linear, of PartitionSpecs."""
    # Inputs, outputs and batch differ, so that none passes for another.
    x = sample(4, 1)
    _specs(attempt, 6, x, ["bias", "kernel"])
    _specs(attempt, 7, x, ["kernel"], NO_BIAS, use_bias=False)


def placement(attempt: Attempt) -> None:
    """The kernel is cut by columns, and the bias with it."""
    x = sample(4, 8)
    _insist_on_layout(attempt, 8, x, ["bias", "kernel"])
    # Here the kernel is as large as the bias.
    _insist_on_layout(attempt, 9, sample(4, 1), ["bias", "kernel"])
    _insist_on_layout(attempt, 10, x, ["kernel"], NO_BIAS, use_bias=False)


def _insist_on_layout(
    attempt: Attempt,
    seed: int,
    x: jax.Array,
    names: list[str],
    given: str = "",
    **changes: Any,
) -> None:
    """Make a call, and see how its specs would cut the arrays."""
    mesh = mesh_of()
    found = _specs(attempt, seed, x, names, given, **changes)
    shapes = {"kernel": (x.shape[-1], 8), "bias": (8,)}
    # The kernel first: a bias is right if it goes with it.
    for name in sorted(names, reverse=True):
        shape, (axis, read) = shapes[name], CUTS[name]
        got, same = _cut(mesh, found[name], name, shape)
        if not same:
            expected, _ = _cut(mesh, SPECS[name], name, shape)
            raise Wrong(
                f'a {name} is cut over "model" by {axis}',
                got=got,
                expected=expected,
                read=NOT_ALWAYS if given else read,
            )


def _cut(
    mesh: Mesh, spec: P, name: str, shape: tuple[int, ...]
) -> tuple[str, bool]:
    """Say how a spec cuts an array, and whether as it should."""
    right = NamedSharding(mesh, SPECS[name])
    try:
        sharding = NamedSharding(mesh, spec)
        # This insists on a spec that has no more axes than the array.
        jax.ShapeDtypeStruct(shape, jnp.float32, sharding=sharding)
        held = would_hold(shape, sharding)
    except Exception as error:  # jax's own for axes named twice.
        return f"{spec}: {str(error).splitlines()[0]}", False
    same = sharding.is_equivalent_to(right, len(shape))
    return held, same


def _specs(
    attempt: Attempt,
    seed: int,
    x: jax.Array,
    names: list[str],
    given: str = "",
    **changes: Any,
) -> dict[str, P]:
    """Make a call, and find the specs that it made, by name."""
    with (
        _changed(**changes) as linears,
        observing.trees() as flattened,
        observing.steps(attempt.filename) as steps,
        _states() as states,
    ):
        attempt(float(seed), x, 8.0, given=given)
    _insist_on_linear(linears.built, seed, x)
    # What was taken apart last is likely what was counted.
    trees = (*steps.values, *states, *flattened)
    # A Module has the same names, but it is not a state.
    seen = [_by_name(t) for t in trees if not isinstance(t, nnx.Module)]
    right = [
        tree
        for tree in seen
        if sorted(tree) == names
        and all(isinstance(leaf, P) for leaf in tree.values())
    ]
    if right:
        return right[-1]
    expected = f"a tree with a PartitionSpec at {' and '.join(names)}"
    for kind, why, read in WHAT_ELSE:
        near = [tree for tree in seen if _holds(tree, kind)]
        if near:
            raise Wrong(
                why, got=show(near[-1]), expected=expected, read=read
            )
    raise Wrong(
        "no tree of specs was made, only a number: build it, keep it in a "
        "variable, and count its leaves",
        got="no tree of specs",
        expected=expected,
        read="The API",
    )


def _insist_on_linear(
    built: list[nnx.Linear], seed: int, x: jax.Array
) -> None:
    """Insist on the Linear that the problem asks for."""
    with jax.disable_jit():  # As the attempt did: nothing to compile.
        model = nnx.Linear(x.shape[-1], 8, rngs=nnx.Rngs(seed))
    expected = model.kernel.get_value()
    if not built:
        raise Wrong(
            "no Linear was built, so there is no state to map",
            got="no Linear",
            expected=f"nnx.Linear({x.shape[-1]}, 8, rngs=nnx.Rngs(seed))",
            read="Problem",
        )
    kernel = built[-1].kernel.get_value()
    # One that was built to look at its shapes has no numbers.
    abstract = not isinstance(kernel, jax.Array | np.ndarray)
    abstract = abstract or isinstance(kernel, jax.core.Tracer)
    same = getattr(kernel, "shape", expected.shape) == expected.shape
    if not same or not (abstract or np.allclose(kernel, expected)):
        raise Wrong(
            "the Linear has another shape, or its kernel another seed",
            got=f"kernel {show(kernel)}",
            expected=f"kernel {show(expected)}",
            read="Problem",
        )


@contextmanager
def _states() -> Iterator[list[nnx.State]]:
    """Note every State that is made; not every route flattens one."""
    seen: list[nnx.State] = []
    build: Callable[..., None] = nnx.State.__init__

    def watched(self: nnx.State, *args: Any, **kwargs: Any) -> None:
        build(self, *args, **kwargs)
        seen.append(self)

    with observing.replaced(nnx.State, "__init__", watched):
        yield seen


def _by_name(tree: Any) -> dict[str, Any]:
    """Give the leaves of a tree by the words in their paths.

    A Variable adds nothing to a path, so a state, a state of bare specs, a
    dictionary and a flat state are alike.
    """
    try:
        leaves = jax.tree_util.tree_leaves_with_path(tree)
    except Exception:
        return {}  # A tree that jax can't take apart.
    return {
        "/".join(
            word
            for word in re.findall(r"\w+", jax.tree_util.keystr(path))
            if word != "value"
        ): leaf
        for path, leaf in leaves
    }


def _holds(tree: dict[str, Any], kind: Any) -> bool:
    """Tell whether a tree, not a leaf alone, has leaves of a kind."""
    whole = "" not in tree and any(
        isinstance(leaf, kind) for leaf in tree.values()
    )
    # Strings are in many trees that have nothing to do with specs.
    return whole and (
        kind in (P, Sharding)
        or any(name.split("/")[0] in SPECS for name in tree)
    )


# What to read when an attempt raises: words of the error, a section.
ERRORS = (
    ("evenly divide", "A size that the mesh does not divide"),
    (
        "many leaves for PyTreeDef",
        "Not always two leaves, and not in that order",
    ),
    ("'State' object is not callable", "A state is not a model"),
    ("has no attribute 'tree_map'", "The API"),
    ("is not found in mesh|No mesh", "A spec without a mesh"),
)
CHECKS = (contract, values, structure, placement)
