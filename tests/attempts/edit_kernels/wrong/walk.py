# wrong: replaced
"""A walk over the Modules, which puts a new Variable in place of each."""

import re

import jax
from flax import nnx


def edit_kernels(model, pattern, edit):
    found = 0
    for keys, node in nnx.iter_graph(model):
        for name, variable in list(getattr(node, "__dict__", {}).items()):
            path = ".".join(map(str, (*keys, name)))
            if isinstance(variable, nnx.Variable) and re.fullmatch(
                pattern, path
            ):
                array = variable.get_value()
                new = jax.jit(
                    lambda x: edit(x).astype(x.dtype),
                    out_shardings=array.sharding,
                )(array)
                setattr(node, name, variable.replace(new))
                found += 1
    if not found:
        raise ValueError(f"no path matches {pattern}")
