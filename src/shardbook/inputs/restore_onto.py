"""Inputs of calls of ``restore_onto``."""

import os
import shutil
from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import NamedSharding, PartitionSpec as P

from shardbook.inputs.folders import temporary_folder
from shardbook.inputs.shared import mesh_of, mlp


def dropout_mlp(
    in_dim: int, hidden: int, out_dim: int, seed: int = 0
) -> nnx.Module:
    """Return the Module of :func:`mlp`, followed by a Dropout.

    Args:
        in_dim: Inputs of ``up``.
        hidden: Outputs of ``up``, and inputs of ``down``.
        out_dim: Outputs of ``down``.
        seed: The seed of the parameters and of the Dropout.

    Returns:
        A Sequential with ``layers.0.up.kernel`` and the other parameters,
        a random key, ``layers.1.rngs.key``, and a count,
        ``layers.1.rngs.count``.
    """
    dropout = nnx.Dropout(0.1, rngs=nnx.Rngs(seed))
    return nnx.Sequential(mlp(in_dim, hidden, out_dim, seed), dropout)


def linear(in_dim: int, out_dim: int) -> nnx.Module:
    """Return a Linear without a bias: a Module with one array.

    Args:
        in_dim: Its inputs.
        out_dim: Its outputs.

    Returns:
        A Linear with a float32 ``kernel``, ``(in_dim, out_dim)``.
    """
    rngs = nnx.Rngs(0)
    return nnx.Linear(in_dim, out_dim, use_bias=False, rngs=rngs)


def too_large(
    make: Callable[..., nnx.Module], *arguments: int
) -> Callable[..., nnx.Module]:
    """Return a function that builds a model, but not on one device.

    Args:
        make: Makes the model, such as :func:`mlp`.
        *arguments: Its arguments.

    Returns:
        A function without arguments, or with those that ``make`` takes
        after the others. It raises a ``RuntimeError`` unless it is traced,
        as by ``jax.jit`` or ``jax.eval_shape``.
    """

    def build(*more: Any) -> nnx.Module:
        if not isinstance(jnp.zeros(()), jax.core.Tracer):
            raise RuntimeError(
                "this model is too large for one device: call build under "
                "jax.jit or nnx.eval_shape"
            )
        return make(*arguments, *more)

    return build


@cache
def checkpoint(make: Callable[..., nnx.Module], *arguments: int) -> str:
    """Save a model from a mesh of all devices, and return the path.

    The mesh is 2 by 4 on eight devices. Where all of them divide the last
    axis of an array, it is sharded over both axes of the mesh, and other
    arrays are replicated. Orbax's ``StandardCheckpointer`` saves the whole
    state, as a ``State``.

    Args:
        make: Makes the model, such as :func:`mlp`.
        *arguments: Its arguments.

    Returns:
        The absolute path of the checkpoint, in a temporary folder that is
        removed at the end of the program.
    """
    # It takes a second to import, and most calls do not need it.
    import orbax.checkpoint as ocp

    count = jax.device_count()
    mesh = mesh_of(2, count // 2) if count > 1 else mesh_of(1, 1)

    def shard(leaf: jax.Array) -> NamedSharding:
        spec = P(*[None] * (leaf.ndim - 1), ("data", "model"))
        divides = leaf.ndim > 0 and leaf.shape[-1] % mesh.size == 0
        return NamedSharding(mesh, spec if divides else P())

    state = nnx.state(make(*arguments))
    path = os.path.join(temporary_folder(), "model")
    with ocp.StandardCheckpointer() as saver:
        saver.save(path, jax.device_put(state, jax.tree.map(shard, state)))
    return path


def truncated(path: str) -> str:
    """Return the path of a copy of a checkpoint that is damaged.

    Args:
        path: The path of a checkpoint.

    Returns:
        The path of a copy, each file of which lacks its second half.
    """
    copy = os.path.join(temporary_folder(), "model")
    shutil.copytree(path, copy)
    for folder, _, files in os.walk(copy):
        for name in files:
            file = os.path.join(folder, name)
            os.truncate(file, os.path.getsize(file) // 2)
    return copy
