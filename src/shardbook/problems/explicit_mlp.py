"""Add the branches of an MLP in a single sum, on Explicit axes."""

from functools import reduce
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P

Branch = dict[str, jax.Array]


def explicit_mlp(params: list[Branch], x: jax.Array) -> jax.Array:
    """Return ``x`` plus ``gelu(x @ up) @ down`` of each branch.

    The hidden units are sharded over ``"model"``, so each device computes
    a term of every branch. Each device adds up its own terms, and a single
    sum over ``"model"`` adds up those of the devices: with ``m`` devices
    along ``"model"`` and ``d`` along ``"data"``, a device sends
    ``R = 2 * (m - 1) / m * 4 * batch / d * dim`` bytes, however many
    branches there are, and none over ``"data"``. A loss of the result and
    its gradients take ``2 * R`` bytes over ``"model"``, and over
    ``"data"`` those of an all-reduce of the gradients of the kernels,
    ``2 * (d - 1) / d`` times the bytes of a device's shards.

    Call it inside your jitted step: outside ``jax.jit``, JAX runs one
    operation after the other. The mesh comes from the type of ``x``,
    and may have the devices of several processes. Set it for the whole
    step with ``jax.set_mesh``, because some gradients of loops need that.

    Args:
        params: Two or more branches, each with float32 kernels ``"up"``,
            ``(dim, hidden)``, sharded as ``P(None, "model")``, and
            ``"down"``, ``(hidden, dim)``, sharded as
            ``P("model", None)``. Branches may differ in ``hidden``.
        x: The activations, float32 ``(batch, dim)``, sharded as
            ``P("data", None)`` on the mesh of the kernels, whose axes
            ``"data"`` and ``"model"`` are Explicit.

    Returns:
        The sum, ``float32[batch@data,dim]`` as ``jax.typeof`` prints it.
        ``gelu`` is the tanh approximation, the default of
        ``jax.nn.gelu``. The gradients of ``params`` and ``x`` have the
        types of these.

    Raises:
        ValueError: From jax, if the axes of the mesh are not Explicit.
        Exception: From jax, a ``ShardingTypeError``, if the hidden units
            of ``"down"`` are not sharded over ``"model"``.

    Example:
        ``jax.typeof(explicit_mlp(params, x)) == jax.typeof(x)``

    References:
        JAX, *Autodiff and sharding*,
        https://docs.jax.dev/en/latest/301/sharding-ad.html
    """
    # --- solution ---
    mesh = jax.typeof(x).sharding.mesh

    def rows(**sums: Any) -> NamedSharding:
        return NamedSharding(mesh, P("data", None, **sums))

    # The gradient of what is reduced is unreduced, so it is added up on
    # each device, over the branches, before the devices add it up.
    shared = jax.reshard(x, rows(reduced={"model"}))
    terms = [
        jnp.matmul(  # float32[batch@data,dim]{U:model}
            jax.nn.gelu(shared @ branch["up"]),
            branch["down"],
            out_sharding=rows(unreduced={"model"}),
        )
        for branch in params
    ]
    # Python's sum would begin with 0, which is not unreduced.
    total = reduce(jnp.add, terms)
    y: jax.Array = x + jax.reshard(total, rows())
    return y
