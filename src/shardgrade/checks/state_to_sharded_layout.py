"""What a right ``state_to_sharded_layout`` must show."""

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import jax
from flax import nnx
from jax.sharding import PartitionSpec as P
from jax.tree_util import GetAttrKey

from shardbook.problems.state_to_sharded_layout import pick_spec
from shardgrade.checks._flax import watched
from shardgrade.grading import same


class Node:
    """Two leaves for an array, three for its spec, four for another."""

    def __init__(self, spec: P, leaves: Any) -> None:
        self.spec, self.held = spec, leaves[0]

    def flatten(self) -> tuple[list[Any], P]:
        """Give the leaves: their number shows which tree was counted."""
        is_spec = isinstance(self.held, P)
        number = 3 + (self.held != self.spec) if is_spec else 2
        # A rule may take the last key of a path that has a "key": no such
        # key may follow the name of the Variable.
        return [(GetAttrKey("held"), self.held)] * number, self.spec


jax.tree_util.register_pytree_with_keys(Node, Node.flatten, Node)


@contextmanager
def extended() -> Iterator[Any]:
    """Add a LayerNorm to each Linear, and a node around each array."""

    def extend(model: Any) -> None:
        for each in (model.kernel, model.bias):
            each.set_value(Node(pick_spec(each), [each.get_value()]))
        model.norm = nnx.LayerNorm(8, rngs=nnx.Rngs(0))

    # An attempt may refuse such a Linear.
    with (
        watched(init=extend) as seen,
        suppress(same.Crashed, same.NotWritten),
    ):
        yield seen


def case(numbers: str, given: str = "", under: Any = watched) -> same.Case:
    """Give a call that traces each Linear anew."""
    call = f"state_to_sharded_layout({numbers})"
    return same.without_jit(same.Case(call, given, under, values=True))


NO_BIAS = partial(watched, use_bias=False)
CASES = (
    case("6.0, normal(4, 8), 8.0"),
    # The kernel has as many numbers as the bias.
    case("3000000000.0, normal(7, 1), 10.0"),
    case("2, normal(1, 3), 1"),
    case("7.0, normal(4, 8), 8.0", "where Linear has no bias", NO_BIAS),
)
EXTENDED = case(
    "4.0, normal(4, 8), 8.0", "where Linear has more leaves", extended
)
EXAMPLE = CASES[0].call


def by_name(tree: Any) -> dict[str, Any]:
    """Give leaves by their names, which are alike in all kinds of state."""
    kind = "Module " if isinstance(tree, nnx.Module) else ""
    named = {}
    # What jax can't flatten is no tree of specs.
    with suppress(Exception):
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
            text = jax.tree_util.keystr(path)
            named[kind + re.sub(r"\.value|<.*>|\W", "", text)] = leaf
    return named


def specs(seen: same.Seen) -> dict[str, Any]:
    """Give the tree of specs, or the last tree that is most like it."""
    ours = same.observe(
        same.solution(seen.attempt.problem), seen.case
    ).noted.built
    wanted = by_name(jax.tree.map(pick_spec, nnx.state(ours[-1])))
    made = (*seen.values, *seen.noted.states, *seen.noted.trees)
    return max(
        map(by_name, made[::-1]),
        key=lambda tree: (
            sum(tree.get(name) == spec for name, spec in wanted.items()),
            P in map(type, tree.values()),
            tree.keys() == wanted.keys(),
        ),
    )


def counted(seen: same.Seen) -> Any:
    """Give the result, unless it is the number of leaves of the specs."""
    ours = same.observe(
        same.solution(seen.attempt.problem), seen.case
    ).result
    sizes = (None, ours, len(specs(seen)))
    return ours if seen.result in sizes else seen.result


CHECKS = {
    "types": same.types("state_to_sharded_layout(0.0, normal(7, 3), 5.0)"),
    "linear": same.structure(
        CASES,
        lambda seen: [each.kernel[...] for each in seen.noted.built[-1:]],
        "build one nnx.Linear(x.shape[-1], features, rngs=nnx.Rngs(seed))",
        # One that was built abstractly has no numbers.
        agree=lambda got, expected: (
            any(isinstance(each, jax.core.Tracer) for each in got)
            or same.is_close(got, expected)
        ),
    ),
    "specs": same.placement(
        CASES,
        specs,
        'map the state to a tree with P(None, "model") for a kernel and '
        'P("model") for a bias',
        read="The API",
    ),
    "leaves": same.values(
        (*CASES, EXTENDED),
        counted,
        "the result is not the number of leaves in the tree of specs",
        read="Not always two leaves",
    ),
}
# What to read when an attempt raises: words of the error, a section.
ERRORS = (("many leaves for PyTreeDef", "Not always two leaves"),)
