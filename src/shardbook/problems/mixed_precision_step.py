"""Train float32 weights with bfloat16 products and float32 sums."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, PartitionSpec as P


def mixed_precision_step(
    loss: Callable[[Any, Any], jax.Array], rate: float, mesh: Mesh
) -> Callable[[Any, Any], tuple[Any, jax.Array]]:
    """Return ``step(params, batch)``, which gives new params and the loss.

    The parameters are float32 shards. They are cast to bfloat16 and then
    gathered, and the loss and its gradients are computed with bfloat16
    parameters. The gradients are cast to float32 before the devices add
    them up, and the update is float32. Over ``n`` devices along
    ``"data"``, ``N`` parameters ask for ``6 * N * (n - 1) / n`` bytes that
    a device sends: two bytes for a weight, four for a gradient. XLA's CPU
    compiler sends bfloat16 as float32, so there it is eight bytes.

    A device holds shards between steps, but in a step all ``2 * N`` bytes
    of the bfloat16 weights, or ``4 * N`` of whole float32 gradients where
    the compiler puts off the sums.

    Args:
        loss: ``loss(params, batch)``: the mean over the rows of ``batch``,
            a float32 scalar. It is given whole bfloat16 parameters and a
            device's rows, and casts the rows to the parameters' dtype.
        rate: The learning rate, a factor of the gradient.
        mesh: Mesh with Auto axes ``"data"`` and ``"model"``.

    Returns:
        A jitted function of ``params``, which are donated: a tree of
        float32 arrays of rank one or more, with the first dimension
        sharded as ``P("data")``; and of ``batch``, a tree of arrays of any
        dtype with rows along the first dimension, sharded in the same way,
        which ``loss`` gets as they are. It returns the new parameters,
        ``p - rate * gradient``, float32 and sharded like the old ones, and
        the loss of the old parameters on the global batch: a float32
        scalar, ``P()``. With several processes, each one calls the step
        with the same global arrays.

    Raises:
        ValueError: From jax, in the step, if the size of ``"data"`` does
            not divide the first dimension of an array.

    Example:
        ``step = mixed_precision_step(loss, 0.1, mesh)``, and in a loop
        ``params, value = step(params, batch)``

    References:
        Micikevicius et al., *Mixed Precision Training*, 2017, section 3.1,
        https://arxiv.org/abs/1710.03740
    """
    # --- solution ---
    devices = mesh.shape["data"]
    inputs, results = (P("data"), P("data")), (P("data"), P())

    def gather(shard: jax.Array) -> Any:
        # Cast first: a gather of bfloat16 sends half the bytes.
        narrow = shard.astype(jnp.bfloat16)
        return jax.lax.all_gather(narrow, "data", tiled=True)

    def update(shard: jax.Array, gradient: jax.Array) -> Any:
        # Cast first here too, or the devices would add up in bfloat16.
        wide = gradient.astype(jnp.float32)
        total = jax.lax.psum_scatter(wide, "data", tiled=True)
        return shard - rate * total / devices

    @jax.shard_map(mesh=mesh, in_specs=inputs, out_specs=results)
    def step(shards: Any, batch: Any) -> tuple[Any, jax.Array]:
        params = jax.tree.map(gather, shards)  # bfloat16, whole
        # Not with respect to the shards: JAX would cast the sum, not what
        # is added up.
        value, gradients = jax.value_and_grad(loss)(params, batch)
        new = jax.tree.map(update, shards, gradients)
        return new, jax.lax.pmean(value, "data")

    return jax.jit(step, donate_argnums=0)
