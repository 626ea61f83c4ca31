"""Train with parameters that are sharded over the batch's devices."""

from collections.abc import Callable
from typing import Any

import jax
from jax.sharding import Mesh, PartitionSpec as P


def fsdp_step(
    loss: Callable[..., Any], specs: Any, mesh: Mesh, rate: float
) -> Callable[..., tuple[Any, jax.Array]]:
    """Return ``step(params, batch)``, which gives new params and the loss.

    Each device gathers the parameters and gets the gradient of its own
    shards. Over ``n`` devices along ``"data"``, a device sends
    ``2 * (n - 1) / n`` times the bytes of the parameters and the loss.

    Args:
        loss: ``loss(params, batch)``: a mean over examples, float32.
        specs: A spec for each array of the parameters: ``"data"`` for at
            most one dimension, ``None`` for the others.
        mesh: Mesh with Auto axes ``"data"`` and ``"model"``.
        rate: The learning rate, a factor of the gradient.

    Returns:
        A function of ``params``, which are donated: float32 arrays,
        sharded by ``specs``; and of ``batch``, a tree of arrays with
        examples along the first dimension, sharded as ``P("data")``. It
        returns the new parameters, sharded by ``specs``, and the loss of
        the old parameters on the global batch: a float32 scalar, ``P()``.

    Raises:
        ValueError: From jax, in the step, if the size of ``"data"`` does
            not divide a dimension that it shards.

    Example:
        ``params, value = fsdp_step(loss, specs, mesh, 0.1)(params, batch)``

    References:
        Rajbhandari et al., *ZeRO: Memory Optimizations Toward Training
        Trillion Parameter Models*, 2019, section 7,
        https://arxiv.org/abs/1910.02054
    """
    # --- solution ---
    inputs, results = (specs, P("data")), (specs, P())

    def gather(shard: jax.Array, spec: P) -> Any:
        if "data" not in spec:
            return shard
        axis = spec.index("data")
        return jax.lax.all_gather(shard, "data", axis=axis, tiled=True)

    @jax.shard_map(mesh=mesh, in_specs=inputs, out_specs=results)
    def step(shards: Any, batch: Any) -> tuple[Any, jax.Array]:
        def mean_loss(shards: Any) -> Any:
            params = jax.tree.map(gather, shards, specs)
            return jax.lax.pmean(loss(params, batch), "data")  # float32[]

        value, gradients = jax.value_and_grad(mean_loss)(shards)
        new = jax.tree.map(lambda p, g: p - rate * g, shards, gradients)
        return new, value

    return jax.jit(step, donate_argnums=0)
