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

    One program makes all arrays. If the initializers draw each number
    separately, a device needs memory for its own shards only: for results
    and temporaries, about as many bytes as the unsharded program, divided
    by the number of devices that share the model.

    Args:
        build: Makes the model. ``build`` is only traced, twice, so it can't
            read values. If it annotates Variables with mesh axes, set the
            mesh around the call.
        mesh: Mesh with the axes that the specs name.
        rules: Pairs of a pattern and a spec. An array gets the spec of
            the first pattern that matches its whole path, such as
            ``layers.0.kernel``.

    Returns:
        The model with all of its arrays on the mesh, and with the values
        that ``build()`` returns, up to rounding.

    Raises:
        ValueError: If no rule matches an array; the message has its path.
            If a spec doesn't fit its array, the error comes from JAX and
            may be of another class.

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
