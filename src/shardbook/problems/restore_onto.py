"""Restore a model from a checkpoint straight onto a mesh."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import jax
import orbax.checkpoint as ocp
from flax import nnx
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

Rules = Sequence[tuple[str, P]]


def restore_onto(
    path: str, build: Callable[[], nnx.Module], mesh: Mesh, rules: Rules
) -> nnx.Module:
    """Return the model of a checkpoint, each array sharded by its rule.

    Orbax restores each array straight into its sharding, so a device gets
    only its own slices, no matter what mesh they were saved from.

    Args:
        path: Absolute path of a checkpoint: all of ``nnx.state(model)``,
            saved by Orbax's ``StandardCheckpointer``.
        build: Builds a model of the same structure. It is only traced. If
            it annotates Variables with mesh axes, set the mesh around the
            call.
        mesh: Mesh with the axes that the specs name.
        rules: Pairs of a pattern and a spec. The first pattern that
            matches the whole path of an array, such as
            ``layers.0.kernel``, gives the spec of the array.

    Returns:
        The model that ``build`` makes, in its shapes and dtypes, with the
        parameters, statistics, random keys and counters of the checkpoint.
        Each array is sharded over ``mesh`` by its spec.

    Raises:
        FileNotFoundError: From Orbax, if there is no such folder.
        ValueError: If no rule matches an array; from Orbax, if the names
            or shapes in the checkpoint differ from the model.
        Exception: From Orbax, of any class, if a file that Orbax reads is
            truncated. Other damage to the data may raise no error.

    References:
        Flax, *Save and load checkpoints*,
        https://flax.readthedocs.io/en/latest/guides/checkpointing.html
    """
    # --- solution ---
    graphdef, abstract = nnx.split(nnx.eval_shape(build))

    def place(keys: Any, leaf: jax.ShapeDtypeStruct) -> Any:
        name = jax.tree_util.keystr(keys, simple=True, separator=".")
        name = name.removesuffix(".value")  # The array of a Variable.
        for pattern, spec in rules:
            if re.fullmatch(pattern, name):
                return leaf.update(sharding=NamedSharding(mesh, spec))
        raise ValueError(f"no rule matches {name}")

    target = jax.tree.map_with_path(place, abstract)
    with ocp.StandardCheckpointer() as reader:
        return nnx.merge(graphdef, reader.restore(path, target))
