"""Inputs of calls of ``clip_local``."""

from collections.abc import Callable
from typing import Any

import jax
from jax.sharding import Mesh, PartitionSpec as P

from shardbook.inputs.shared import laid_out, normal

GRADIENT_SPECS = {
    "embed": P(("data", "model")),
    "up": P("data", "model"),
    "down": P("model", None),
    "bias": P(None, "data"),
    "norm": P(),
    "scale": P(),
}
"""Specs for :func:`~shardbook.inputs.gradients`.

They are over both axes, one of them, or none.

:meta hide-value:
"""


def gradients(size: float, dtype: str = "float32") -> dict[str, Any]:
    """Return a tree of gradients of six arrays.

    Args:
        size: A factor of the numbers, which without it have a standard
            normal distribution.
        dtype: The dtype of ``"embed"``, ``"up"`` and ``"down"``.

    Returns:
        ``"embed"`` and ``"down"``, ``(32, 8)``, ``"up"``, ``(8, 32)``,
        and in float32 ``"bias"``, ``(1, 32)``, ``"norm"``, ``(40,)``, and
        the scalar ``"scale"``: uncommitted arrays on the first device.
    """
    shapes = {
        "embed": (32, 8),
        "up": (8, 32),
        "down": (32, 8),
        "bias": (1, 32),
        "norm": (40,),
        "scale": (),
    }
    tree = {
        name: size * normal(*shape, seed=seed)
        for seed, (name, shape) in enumerate(shapes.items())
    }
    large = {name: tree[name].astype(dtype) for name in [*shapes][:3]}
    return tree | large


def in_shard_map(
    function: Callable[..., Any], specs: Any, mesh: Mesh, *more: Any
) -> Callable[[Any], Any]:
    """Return a function that runs another one on shards, on each device.

    Args:
        function: Called once while it is traced, inside ``jax.shard_map``:
            ``function(shards, specs, *more, mesh.axis_names)``.
        specs: A spec for each array, before and after.
        mesh: Mesh with the axes that the specs name.
        *more: Further arguments of the function.

    Returns:
        A compiled function of a tree of whole arrays like ``specs``, on
        any devices, that returns what the shards of all devices make.
    """

    @jax.jit
    @jax.shard_map(mesh=mesh, in_specs=(specs,), out_specs=specs)
    def on_shards(shards: Any) -> Any:
        return function(shards, specs, *more, mesh.axis_names)

    return lambda tree: on_shards(laid_out(tree, specs, mesh))
