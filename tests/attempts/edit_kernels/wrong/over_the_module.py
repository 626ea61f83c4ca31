# wrong: once
"""As a tree, a Module has what it shares more than once."""

import re

import jax
from flax import nnx


def edit_kernels(model, pattern, edit):
    found = []

    def visit(keys, variable):
        path = jax.tree_util.keystr(keys, simple=True, separator=".")
        if isinstance(variable, nnx.Variable) and re.fullmatch(
            pattern, path
        ):
            found.append(path)
            array = variable[...]
            variable[...] = jax.jit(
                lambda x: edit(x).astype(x.dtype),
                out_shardings=array.sharding,
            )(array)

    jax.tree.map_with_path(
        visit, model, is_leaf=lambda node: isinstance(node, nnx.Variable)
    )
    if not found:
        raise ValueError(f"no path matches {pattern}")
