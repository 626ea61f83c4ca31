"""One program for all arrays, with the paths of jax.tree."""

import re

import jax
from flax import nnx


def edit_kernels(model, pattern, edit):
    arrays = {
        jax.tree_util.keystr(keys, simple=True, separator=".").removesuffix(
            ".value"
        ): array
        for keys, array in jax.tree.leaves_with_path(nnx.state(model))
    }
    chosen = {
        path: array
        for path, array in arrays.items()
        if re.compile(pattern).fullmatch(path)
    }
    if not chosen:
        raise ValueError(f"{pattern} is not one of {', '.join(arrays)}")
    edited = jax.jit(
        lambda tree: {
            path: edit(array).astype(array.dtype)
            for path, array in tree.items()
        },
        out_shardings={
            path: each.sharding for path, each in chosen.items()
        },
    )(chosen)
    nnx.update(
        model,
        nnx.from_flat_state(
            [
                (keys, variable.replace(edited[path]))
                for keys, variable in nnx.to_flat_state(nnx.state(model))
                if (path := ".".join(str(key) for key in keys)) in edited
            ]
        ),
    )
