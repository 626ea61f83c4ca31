"""Inputs of calls of ``route_to_experts``."""

import jax
import numpy as np
from jax.sharding import Mesh, PartitionSpec as P

from shardbook.inputs.shared import laid_out

EXPERT_SPECS = {"router": P(), "up": P("model"), "down": P("model")}
"""Specs for :func:`~shardbook.inputs.expert_params`.

The experts are over ``"model"``, and the router is replicated.

:meta hide-value:
"""


def expert_params(
    dim: int, experts: int, hidden: int, mesh: Mesh, scale: float = 1
) -> dict[str, jax.Array]:
    """Return a router and the kernels of its experts, placed on a mesh.

    Args:
        dim: Features of a token.
        experts: How many experts there are; the size of ``"model"`` must
            divide it.
        hidden: Hidden units of an expert.
        mesh: Mesh with an axis ``"model"``.
        scale: What the router is multiplied by.

    Returns:
        Float32 ``"router"``, ``(dim, experts)``, replicated, ``"up"``,
        ``(experts, dim, hidden)``, and ``"down"``,
        ``(experts, hidden, dim)``, both with the experts sharded over
        ``"model"``.
    """
    # In NumPy: jax would compile each of these operations.
    draw = np.random.default_rng(1).normal
    params = {
        "router": scale * draw(size=(dim, experts)) / 3,
        "up": draw(size=(experts, dim, hidden)) / dim**0.5,
        "down": draw(size=(experts, hidden, dim)) / hidden**0.5,
    }
    narrow = {name: each.astype("f4") for name, each in params.items()}
    placed: dict[str, jax.Array] = laid_out(narrow, EXPERT_SPECS, mesh)
    return placed


def padded_tokens(
    count: int, dim: int, padding: int, mesh: Mesh
) -> jax.Array:
    """Return tokens of which the last are padding, sharded by rows.

    Args:
        count: How many tokens there are; the number of devices must divide
            it.
        dim: Features of a token.
        padding: How many of the tokens are zeros.
        mesh: Mesh with the axes ``"data"`` and ``"model"``.

    Returns:
        Float32 ``(count, dim)``, sharded as ``P(("data", "model"))``.
    """
    tokens = np.random.default_rng(0).normal(size=(count, dim))
    tokens[count - padding :] = 0
    spec = P(("data", "model"))
    placed: jax.Array = laid_out(tokens.astype("f4"), spec, mesh)
    return placed
