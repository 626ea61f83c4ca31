"""Inputs of calls of ``data_parallel_step``."""

from functools import cache
from typing import Any

import jax
import optax
from flax import nnx
from jax.sharding import Mesh, PartitionSpec as P

from shardbook.inputs.shared import counted_mlp, laid_out


@cache
def adam() -> Any:
    """Return optax's Adam, the same each time: two moments, one count."""
    return optax.adam(1e-2)


@cache
def momentum() -> Any:
    """Return optax's SGD, the same each time: one moment, no count."""
    return optax.sgd(0.1, momentum=0.9)


def optimizer_on(
    mesh: Mesh, tx: Any, *, sharded: bool = False
) -> nnx.Optimizer[nnx.Module]:
    """Return an optimizer for :func:`counted_mlp`, laid out on a mesh.

    Args:
        mesh: Mesh with the axes ``"data"`` and ``"model"``.
        tx: A gradient transformation of optax, such as :func:`adam`.
        sharded: Whether the rows of the moments are sharded over
            ``"data"``. All else is replicated.

    Returns:
        The optimizer, as it is before its first step.
    """
    optimizer = nnx.Optimizer(counted_mlp(mesh), tx, wrt=nnx.Param)

    def place(leaf: jax.Array) -> Any:
        spec = P("data") if sharded and leaf.ndim else P()
        return laid_out(leaf, spec, mesh)

    placed: nnx.Optimizer[nnx.Module] = jax.tree.map(place, optimizer)
    return placed
