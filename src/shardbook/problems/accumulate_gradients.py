"""Take a gradient in microbatches, and add up the devices' once."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P


def accumulate_gradients(
    loss: Callable[..., Any], mesh: Mesh, count: int
) -> Callable[..., tuple[jax.Array, Any]]:
    """Return ``function(params, batch)``: a batch's loss and gradients.

    Each device takes its rows in ``count`` microbatches, so only the
    intermediates of one microbatch are in memory at a time. The sums of
    their gradients are float32, and the devices add them up once, at the
    end: for ``N`` parameters and ``n`` devices along ``"data"``, a device
    sends ``2 * (4 * N + 4) * (n - 1) / n`` bytes, whatever ``count`` is.

    Args:
        loss: ``loss(params, batch)``: a mean over the rows of a batch,
            float32.
        mesh: Mesh with Auto axes, one of them ``"data"``.
        count: How many microbatches a device makes of its rows, at least
            1.

    Returns:
        A function of ``params``, float32 or bfloat16 arrays, replicated:
        ``P()``; and of ``batch``, a tree of arrays with rows along the
        first dimension, sharded as ``P("data")``. It returns what
        ``jax.value_and_grad(loss)`` returns for the global batch: the
        loss, a float32 scalar, and a tree like ``params``, all ``P()``.

    Raises:
        ValueError: In the function, if the devices along ``"data"`` times
            ``count`` don't divide the rows. The message names the three
            numbers: rows of the whole batch, these devices, ``count``.
            And from jax, if parameters are sharded, as in FSDP. Inside
            ``jax.jit``, which doesn't know the shardings, such parameters
            are gathered without an error.

    Example:
        ``value, grads = accumulate_gradients(loss, mesh, 8)(params, x)``

    References:
        Goyal et al., *Accurate, Large Minibatch SGD: Training ImageNet in
        1 Hour*, 2017, section 3, https://arxiv.org/abs/1706.02677
    """
    # --- solution ---
    devices = mesh.shape["data"]

    def split(rows: jax.Array) -> jax.Array:
        return rows.reshape(count, -1, *rows.shape[1:])

    @jax.shard_map(mesh=mesh, in_specs=(P(), P("data")), out_specs=P())
    def mean(params: Any, batch: Any) -> tuple[jax.Array, Any]:
        zeros = jax.tree.map(
            lambda p: jnp.zeros(jnp.shape(p), jnp.float32), (0.0, params)
        )
        # Without this, jax would add up the devices' gradients in the loop.
        own, zeros = jax.lax.pcast((params, zeros), "data", to="varying")

        def add(sums: Any, part: Any) -> tuple[Any, None]:
            terms = jax.value_and_grad(loss)(own, part)
            return jax.tree.map(jnp.add, sums, terms), None

        sums, _ = jax.lax.scan(add, zeros, jax.tree.map(split, batch))
        value, gradients = jax.lax.pmean(sums, "data")
        return value / count, jax.tree.map(
            lambda g, p: (g / count).astype(p.dtype), gradients, params
        )

    def function(params: Any, batch: Any) -> tuple[jax.Array, Any]:
        rows = len(jax.tree.leaves(batch)[0])
        if rows % (devices * count):
            raise ValueError(
                f"{rows} rows are not divisible by {devices} devices on "
                f"mesh axis 'data' times count={count}."
            )
        return mean(params, batch)

    # Without this, sharded parameters would be gathered without an error.
    whole = NamedSharding(mesh, P())
    return jax.jit(function, in_shardings=(whole, None))
