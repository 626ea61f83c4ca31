"""Modules of Flax, if it was imported: nothing else knows it."""

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import jax
import numpy as np


def _nnx() -> Any:
    """Give flax.nnx if it was imported, or else there are no Modules."""
    return sys.modules.get("flax.nnx")


# What most nodes of a tree are. To ask Flax takes ten times as long.
_PLAIN = frozenset({dict, list, tuple, np.ndarray, jax.ShapeDtypeStruct})


def is_graph_node(node: Any) -> bool:
    """Whether this is a Module, a Variable, or another node of flax.nnx."""
    if type(node) in _PLAIN:
        return False
    nnx = _nnx()
    return bool(nnx) and isinstance(node, nnx.Pytree | nnx.Variable)


def is_variable(node: Any) -> bool:
    """Whether this is a Variable of flax.nnx."""
    nnx = _nnx()
    return bool(nnx) and isinstance(node, nnx.Variable)


def jit_for(tree: Any) -> Any:
    """Give nnx.jit for arguments with Modules, or else jax.jit.

    Under jax.jit, what a function writes into a Module is lost, and XLA
    would leave out the work that leads to it.
    """
    nodes = jax.tree.leaves(tree, is_leaf=is_graph_node)
    return _nnx().jit if any(map(is_graph_node, nodes)) else jax.jit


def expand_modules(tree: Any) -> Any:
    """Replace each Module in a tree by its state.

    As a pytree, a Module repeats what it shares; its state does not.
    """
    nodes, treedef = jax.tree.flatten(tree, is_leaf=is_graph_node)
    if not any(map(is_graph_node, nodes)):
        return tree
    states = _nnx().state([node for node in nodes if is_graph_node(node)])
    places = count()
    return jax.tree.unflatten(
        treedef,
        [
            states.get(next(places), {}) if is_graph_node(node) else node
            for node in nodes
        ],
    )


def split_modules(tree: Any) -> tuple[Any, Callable[[Any], Any]]:
    """Replace each Module in a tree by its state, to change its arrays.

    A Module keeps what it shares if its state alone is replaced.

    Returns:
        The tree of states, and a function that makes, of one that is like
        it, a tree with Modules again.
    """
    treedef: Any
    nodes, treedef = jax.tree.flatten(tree, is_leaf=is_graph_node)
    parts = [
        _nnx().split(node) if is_graph_node(node) else (None, node)
        for node in nodes
    ]

    def join(states: Any) -> Any:
        return jax.tree.unflatten(
            treedef,
            [
                state if kind is None else _nnx().merge(kind, state)
                for (kind, _), state in zip(
                    parts, treedef.flatten_up_to(states), strict=True
                )
            ],
        )

    return jax.tree.unflatten(treedef, [each for _, each in parts]), join


def join_modules(tree: Any) -> Any:
    """Put together the Modules that nnx.jit has split in its arguments."""
    nnx = _nnx()
    return nnx.from_tree(tree, merge_fn=_merge) if nnx else tree


def _merge(context: Any, _path: Any, _prefix: Any, node: Any) -> Any:
    return context.unflatten(node.graphdef, *node.states)


@contextmanager
def modules_unharmed() -> Iterator[None]:
    """Put back what tracing changes in the Modules that there are.

    An nnx.jit inside the traced function empties the Modules that it
    updates, before it finds out that their Variables, which Flax guards,
    belong to another trace.
    """
    # All but those that gc.freeze() hides, because a function reaches them
    # in too many ways to follow. By type, because isinstance() may run
    # code of the object.
    nnx = _nnx()
    kept = [
        (vars(node), dict(vars(node)))
        for node in (gc.get_objects() if nnx else ())
        if nnx.Pytree in type(node).__mro__
    ]
    try:
        yield
    except Exception as error:
        if "different trace level" in str(error):
            error.add_note(
                "A Module or Variable that the function updates must be "
                "one of its arguments: write program(step, model, x) "
                "instead of program(lambda x: step(model, x), x)."
            )
        raise
    finally:
        for now, before in kept:
            if now.keys() != before.keys() or any(
                now[name] is not value for name, value in before.items()
            ):
                now.clear()
                now.update(before)
