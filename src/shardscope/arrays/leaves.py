"""The arrays of a tree or Module, each with its path."""

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from shardscope.arrays.modules import (
    expand_modules,
    is_graph_node,
    is_variable,
)
from shardscope.arrays.paths import VALUE, dotted, strip_value


def is_array(leaf: Any) -> bool:
    """Tell whether a leaf is an array, or stands for one."""
    return isinstance(leaf, jax.Array | np.ndarray | jax.ShapeDtypeStruct)


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
        if is_variable(node) or id(node) in seen:
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
