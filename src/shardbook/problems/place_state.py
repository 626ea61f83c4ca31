"""Place a model on a mesh by rules for the paths of its arrays."""

import re
from collections.abc import Sequence
from typing import Any

import jax
from flax import nnx
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P


def place_state(
    model: nnx.Module, mesh: Mesh, rules: Sequence[tuple[str, P]]
) -> nnx.Module:
    """Return the model with each array placed on the mesh by its rule.

    For a single process: in several, ``jax.device_put`` refuses random
    keys, such as a Dropout's, but ``init_sharded`` can make the model.

    Args:
        model: Any Module, with its arrays on any devices. The model doesn't
            change, but may share memory with the result, so donating the
            result may delete arrays of the model.
        mesh: Mesh with the axes that the specs name.
        rules: Pairs of a pattern and a spec. An array gets the spec of
            the first pattern that matches its whole path: the names that
            lead to it, joined by dots, as in ``layers.0.kernel``.

    Returns:
        A new model with the same structure and values, and with all of its
        arrays on the mesh: parameters, statistics, random keys and counts.

    Raises:
        ValueError: If an array has no rule or a spec that doesn't fit.
            The message has the path of each such array, and no other.

    References:
        Geng, *EasyLM*, 2023, https://github.com/young-geng/EasyLM
    """
    # --- solution ---
    graphdef, state = nnx.split(model)
    refused = []

    def place(keys: Any, leaf: jax.Array) -> NamedSharding | None:
        path = jax.tree_util.keystr(keys, simple=True, separator=".")
        path = path.removesuffix(".value")  # The array of a Variable.
        specs = [spec for rule, spec in rules if re.fullmatch(rule, path)]
        try:
            if not specs:
                raise ValueError("no rule matches")
            sharding = NamedSharding(mesh, specs[0])
            # These raise if the spec is too long, or a size doesn't fit.
            jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)
            sharding.shard_shape(leaf.shape)
        except Exception as error:
            refused.append(f"{path}: {error}")
            return None
        return sharding

    shardings = jax.tree.map_with_path(place, state)
    if refused:
        raise ValueError("\n".join(refused))
    return nnx.merge(graphdef, jax.device_put(state, shardings))
