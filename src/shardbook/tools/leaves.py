"""The arrays of a tree or Module, each with its path."""

import sys
from collections.abc import Iterator
from itertools import count
from typing import Any

import jax

from shardbook.tools.paths import VALUE, dotted, strip_value


def flax_nnx() -> Any:
    """Give flax.nnx if it was imported, or else there are no Modules."""
    return sys.modules.get("flax.nnx")


def is_graph_node(node: Any) -> bool:
    """Whether this is a Module, a Variable, or another node of flax.nnx."""
    nnx = flax_nnx()
    return bool(nnx) and isinstance(node, nnx.Pytree | nnx.Variable)


def expand_modules(tree: Any) -> Any:
    """Replace each Module in a tree by its state.

    As a pytree, a Module repeats what it shares; its state does not.
    """
    nodes, treedef = jax.tree.flatten(tree, is_leaf=is_graph_node)
    if not any(map(is_graph_node, nodes)):
        return tree
    states = flax_nnx().state(
        [node for node in nodes if is_graph_node(node)]
    )
    places = count()
    return jax.tree.unflatten(
        treedef,
        [
            states.get(next(places), {}) if is_graph_node(node) else node
            for node in nodes
        ],
    )


def named_leaves(tree: Any) -> Iterator[tuple[str, Any]]:
    """Give the leaves of a tree, each with its path.

    Those of a Module or Variable that the tree has twice are given once.
    """
    # The nodes are kept, or another might get the id of one.
    seen: dict[int, Any] = {}
    modules: dict[Any, Any] = {}

    def is_leaf(path: Any, node: Any) -> bool:
        if not is_graph_node(node):
            return False
        if isinstance(node, flax_nnx().Variable) or id(node) in seen:
            return True
        seen[id(node)] = modules[path] = node
        return False

    leaves = jax.tree_util.tree_leaves_with_path(
        tree, is_leaf=is_leaf, is_leaf_takes_path=True
    )
    if modules and any(
        jax.tree_util.all_leaves([node]) for node in modules.values()
    ):
        # JAX can't look into a Module that is no pytree.
        yield from named_leaves(expand_modules(tree))
        return
    for path, leaf in leaves:
        if not is_graph_node(leaf):
            short = strip_value(path)
            # In a Module it is an attribute like any other.
            if short is not path and not any(
                path[:end] in modules for end in range(len(path))
            ):
                path = short
            yield dotted(path), leaf
        elif id(leaf) not in seen:
            seen[id(leaf)] = leaf
            value = leaf.get_raw_value()
            for rest, array in jax.tree_util.tree_leaves_with_path(value):
                if rest:
                    rest = (VALUE, *strip_value(rest))
                yield dotted(path + rest), array
