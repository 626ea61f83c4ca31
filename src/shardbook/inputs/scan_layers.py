"""Inputs of calls of ``scan_layers``."""

from collections.abc import Callable
from typing import Any

import jax
from jax.sharding import PartitionSpec as P

from shardbook.inputs.shared import numpy_normal


def stacked_params(layers: int, dim: int, hidden: int) -> dict[str, Any]:
    """Return the parameters of :func:`residual_block`, for many layers.

    Args:
        layers: How many layers.
        dim: Inputs and outputs of a layer.
        hidden: Its hidden units.

    Returns:
        Float32 arrays. They are ``"up"`` and ``"down"``, each with a
        ``"kernel"``, ``(layers, dim, hidden)`` and
        ``(layers, hidden, dim)``, and a ``"bias"``, ``(layers, hidden)``
        and ``(layers, dim)``; and ``"scale"``, ``(layers, dim)``.
    """
    # In NumPy: jax would compile each operation for each shape.
    params: dict[str, Any] = {
        "scale": 1 + numpy_normal(layers, dim, seed=5) / 8,
        "up": {
            "kernel": numpy_normal(layers, dim, hidden, seed=1) / dim**0.5,
            "bias": numpy_normal(layers, hidden, seed=2),
        },
        "down": {
            "kernel": numpy_normal(layers, hidden, dim, seed=3)
            / hidden**0.5
            / 4,
            "bias": numpy_normal(layers, dim, seed=4) / layers,
        },
    }
    placed: dict[str, Any] = jax.device_put(params)
    return placed


STACKED_SPECS = {
    "scale": P(),
    "up": {"kernel": P(None, None, "data"), "bias": P(None, "data")},
    "down": {"kernel": P(None, "data"), "bias": P()},
}
"""Specs for :func:`~shardbook.inputs.stacked_params`.

The hidden units are over ``"data"``, and the other arrays replicated.

:meta hide-value:
"""


def residual_block(params: dict[str, Any], x: jax.Array) -> jax.Array:
    """Return ``x`` plus what a scaled MLP makes of it.

    Args:
        params: The parameters of one layer: :func:`stacked_params` without
            the dimension for the layers.
        x: Float32 ``(batch, dim)``.

    Returns:
        Float32 ``(batch, dim)``, each row computed from that row of ``x``.
    """
    up, down = params["up"], params["down"]
    hidden = jax.nn.gelu((x * params["scale"]) @ up["kernel"] + up["bias"])
    output: jax.Array = x + hidden @ down["kernel"] + down["bias"]
    return output


def in_jit(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls another one inside ``jax.jit``.

    Args:
        function: Called once in each call, while it is traced, with
            tracers for arrays, and with anything else as it is given.

    Returns:
        A function of the same arguments.
    """

    def call(*given: Any) -> Any:
        leaves, tree = jax.tree.flatten(given)
        arrays = {
            i: x for i, x in enumerate(leaves) if isinstance(x, jax.Array)
        }

        @jax.jit
        def inside(traced: dict[int, jax.Array]) -> Any:
            mixed = [traced.get(i, leaf) for i, leaf in enumerate(leaves)]
            return function(*jax.tree.unflatten(tree, mixed))

        return inside(arrays)

    return call
