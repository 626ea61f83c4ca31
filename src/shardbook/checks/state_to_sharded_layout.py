"""What a right ``state_to_sharded_layout`` must show."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.sharding import PartitionSpec as P, Sharding

from shardbook.grading import flax_spies, measures
from shardbook.grading.agreement import is_close, same, same_type
from shardbook.grading.attempt import Crashed, NotWritten, Wrong, solution
from shardbook.grading.cases import Case, Seen, observe

EXAMPLE = "state_to_sharded_layout(0.0, normal(4, 8), 8.0)"
NO_BIAS = "where Linear has no bias"
NOT_ALWAYS = "Not always two leaves, and not in that order"


@contextmanager
def watched(
    *, refusal: bool = False, **changes: Any
) -> Iterator[flax_spies.Watched]:
    """Watch and change Linears; an attempt may be free to refuse some."""
    refusals = (Crashed, NotWritten) if refusal else ()
    with (
        # What was traced for another Linear must not answer for this one.
        jax.disable_jit(),
        flax_spies.watched(**changes) as seen,
        suppress(*refusals),
    ):
        yield seen


def add_leaves(model: Any) -> None:
    """Add leaves that are neither kernel nor bias."""
    model.scale = nnx.Param(jnp.asarray(np.full(8, 2.0)))
    model.table = nnx.Param(jnp.asarray(np.full((4, 4), 3.0)))


def tie(model: Any) -> None:
    """Hold the kernel by a second name."""
    model.tied = model.kernel


def case(call: str, given: str = "", **changes: Any) -> Case:
    """Give a case in which all that an attempt makes is watched."""
    under = partial(watched, **changes)
    call = f"state_to_sharded_layout({call}, 8.0)"
    return Case(call, given, under, values=True)


# With one input, the kernel is as large as the bias.
WATCHED = (
    case("6.0, normal(4, 1)"),
    case("7.0, normal(4, 1)", NO_BIAS, use_bias=False),
    case("8.0, normal(4, 8)"),
    case("10.0, normal(4, 8)", NO_BIAS, use_bias=False),
)


def by_name(tree: Any) -> dict[str, Any]:
    """Give the leaves of a tree by the names in their paths.

    A Variable adds nothing to a path, so a state, a state of bare specs, a
    dictionary and a flat state are alike.
    """
    try:
        leaves = jax.tree_util.tree_leaves_with_path(tree)
    except Exception:
        return {}  # A tree that jax can't flatten.
    return {
        "/".join(
            word
            for word in re.findall(r"\w+", jax.tree_util.keystr(path))
            if word != "value"
        ): leaf
        for path, leaf in leaves
    }


def specs(seen: Seen) -> dict[str, Any]:
    """Find the tree of specs that an attempt made."""
    ours = observe(solution(seen.attempt.problem), seen.case)
    names = sorted(by_name(nnx.state(ours.noted.built[-1])))
    # A Module has the same names, but it is not a state.
    trees = [
        by_name(tree)
        for tree in (*seen.values, *seen.noted.states, *seen.noted.trees)
        if not isinstance(tree, nnx.Module)
    ]
    # What was flattened last is likely what was counted.
    for tree in trees[::-1]:
        leaves = tree.values()
        if sorted(tree) == names and all(isinstance(n, P) for n in leaves):
            return tree
    expected = f"a tree with a PartitionSpec at {' and '.join(names)}"
    for kind, why, read in INSTEAD:
        for tree in trees[::-1]:
            if holds(tree, kind):
                got = measures.show(tree)
                raise Wrong(why, got=got, expected=expected, read=read)
    raise Wrong(
        "no tree of specs was made, only a number: build it, keep it in a "
        "variable, and count its leaves",
        got="no tree of specs",
        expected=expected,
        read="The API",
    )


def holds(tree: dict[str, Any], kind: type) -> bool:
    """Tell whether a tree, not a leaf alone, has leaves of a kind."""
    whole = "" not in tree and any(
        isinstance(leaf, kind) for leaf in tree.values()
    )
    # Strings are in many trees that have nothing to do with specs.
    names = {name.split("/")[0] for name in tree}
    return whole and (kind is not str or bool(names & {"kernel", "bias"}))


def kernel(seen: Seen) -> Any:
    """Give the kernel of the last Linear that was built."""
    built = seen.noted.built
    return built[-1].kernel.get_value() if built else "no Linear was built"


def same_kernel(got: Any, expected: jax.Array) -> bool:
    """Compare kernels; one that was built abstractly has no numbers."""
    if isinstance(got, jax.Array) and not isinstance(got, jax.core.Tracer):
        return is_close(got, expected)
    return getattr(got, "shape", None) == expected.shape


def where(name: str) -> Callable[[Seen], str]:
    """Describe which device would hold which slice by the spec."""

    def describe(seen: Seen) -> str:
        spec = specs(seen).get(name, P())
        built = observe(solution(seen.attempt.problem), seen.case).noted
        array = getattr(built.built[-1], name)
        if array is None:
            return "no array"
        return measures.describe_spec(array.shape, spec)

    return describe


# What attempts make in the place of a tree of specs.
INSTEAD = (
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
values = partial(
    same,
    "values",
    of=measures.result,
    agree=lambda got, expected: got is None or is_close(got, expected),
)
CHECKS = (
    same_type("state_to_sharded_layout(0.0, normal(7, 3), 5.0)"),
    values(
        "state_to_sharded_layout(2.0, normal(7, 3), 5.0)",
        why="a Linear has two arrays, with a spec each: P() counts as a "
        "leaf, None does not",
        read='`None` for "not sharded"',
    ),
    values(
        case("3.0, normal(4, 8)", NO_BIAS, use_bias=False),
        why="the number is not counted from the specs of this state",
        read=NOT_ALWAYS,
    ),
    values(
        case(
            "4.0, normal(4, 8)",
            "where Linear has a scale and a table too",
            refusal=True,
            init=add_leaves,
        ),
        why="each array of the state gets a spec, also one that is neither "
        "kernel nor bias",
        read=NOT_ALWAYS,
    ),
    values(
        case(
            "5.0, normal(4, 8)",
            "where Linear holds its kernel by a second name too",
            refusal=True,
            init=tie,
        ),
        why="a state has a shared kernel once, a Module twice: split "
        "first, and map the state",
        read="Why to split all the same",
    ),
    same(
        "structure",
        WATCHED,
        kernel,
        "the Linear has another shape, or its kernel another seed",
        agree=same_kernel,
    ),
    same(
        "structure",
        WATCHED,
        lambda seen: sorted(specs(seen)),
        "the tree of specs has other names than the state",
        "The API",
    ),
    same(
        "placement",
        WATCHED[::2],
        where("kernel"),
        'a kernel is sharded over "model" by its last axis, its columns',
        "The API",
    ),
    same(
        "placement",
        WATCHED[::2],
        where("bias"),
        'a bias is sharded over "model" by its only axis, as the columns '
        "that it belongs to",
        "A bias that is not paired with its kernel",
    ),
    same(
        "placement",
        WATCHED[1::2],
        where("kernel"),
        'a kernel without a bias is sharded over "model" by its last axis',
        NOT_ALWAYS,
    ),
)
# What to read when an attempt raises: words of the error, a section.
ERRORS = (
    ("evenly divide", "A size that the mesh does not divide"),
    ("many leaves for PyTreeDef", NOT_ALWAYS),
    ("'State' object is not callable", "A state is not a model"),
    ("has no attribute 'tree_map'", "The API"),
    ("is not found in mesh|No mesh", "A spec without a mesh"),
)
DEPRECATED = "What changed since the source"
