"""Train with parameters that are sharded over the devices of a batch."""

from collections.abc import Callable
from typing import Any

import jax
from jax.sharding import Mesh, PartitionSpec as P


def fsdp_step(
    loss: Callable[..., Any], specs: Any, mesh: Mesh, rate: float
) -> Callable[..., tuple[Any, jax.Array]]:
    """Return a step of gradient descent on sharded parameters.

    A device gathers the parameters, and gets the gradient of its shard. Of
    ``n`` devices along ``"data"``, each sends ``2 * (n - 1) / n`` times
    the bytes of the parameters and the loss.

    Args:
        loss: ``loss(params, batch)``: a mean over examples, float32.
        specs: A spec for each array of the parameters: ``"data"`` for one
            axis or for none, ``None`` for the others.
        mesh: Mesh with Auto axes ``"data"`` and ``"model"``.
        rate: How much of the gradient to subtract.

    Returns:
        ``step(params, batch)``, which returns the new parameters, and the
        loss of the old ones on the whole batch: a float32 scalar, ``P()``.
        ``params``, donated, are float32 arrays laid out by ``specs``, and
        so are the new ones. ``batch`` is a tree of arrays with examples
        along the first axis, laid out as ``P("data")``.

    Raises:
        ValueError: In the step, if ``"data"`` does not divide an axis.

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
