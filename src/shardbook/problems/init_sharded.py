"""Initialize a model whose arrays are sharded from the start."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import jax
from flax import nnx
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P


def init_sharded(
    build: Callable[[], nnx.Module],
    mesh: Mesh,
    rules: Sequence[tuple[str, P]],
) -> nnx.Module:
    """Return the model that ``build`` makes, sharded by rules.

    One program makes all arrays. With initializers that draw each number
    by itself, a device needs memory for its shards alone: the bytes of
    results and temporaries are about what the whole model needs, divided
    by the number of devices that share the model.

    Args:
        build: Makes the model. It is traced twice, so it sees no values.
            If ``build`` annotates Variables with mesh axes, set the mesh
            around the call.
        mesh: Mesh with the axes that the specs name.
        rules: Pairs of a pattern and a spec. An array gets the spec of
            the first pattern that matches its whole path, such as
            ``layers.0.kernel``.

    Returns:
        The model, with all its arrays on the mesh, and with the values
        that ``build()`` gives, up to rounding.

    Raises:
        ValueError: If no rule matches an array. Where a spec does not fit
            its array, the error is jax's.

    References:
        Flax, *Scale up on multiple devices*,
        https://flax.readthedocs.io/en/latest/guides/flax_gspmd.html
    """
    # --- solution ---
    graphdef, shapes = nnx.split(nnx.eval_shape(build))

    def sharding_of(keys: Any, leaf: jax.ShapeDtypeStruct) -> NamedSharding:
        path = jax.tree_util.keystr(keys, simple=True, separator=".")
        path = path.removesuffix(".value")  # The array of a Variable.
        for pattern, spec in rules:
            if re.fullmatch(pattern, path):
                return NamedSharding(mesh, spec)
        raise ValueError(f"no rule matches {path}")

    shardings = jax.tree.map_with_path(sharding_of, shapes)
    make = jax.jit(lambda: nnx.state(build()), out_shardings=shardings)
    return nnx.merge(graphdef, make())
