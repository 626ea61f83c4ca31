"""Scan over a model's layers, with sharded parameters."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
from jax.sharding import Mesh, PartitionSpec as P


def scan_layers(
    block: Callable[[Any, jax.Array], jax.Array],
    stacked: Any,
    x: jax.Array,
    specs: Any,
    mesh: Mesh,
) -> jax.Array:
    """Return ``x`` after all layers, ``(batch, dim)``.

    Each turn of a loop gathers the parameters of one layer, and frees them
    again. With ``n`` devices along ``"data"`` and ``S`` bytes of sharded
    parameters in all layers, a device sends ``S * (n - 1) / n`` bytes, and
    three times as many in a gradient: two gathers and a reduce-scatter.
    Gradients of replicated parameters are all-reduced after the loop.

    Call it inside your jitted step: outside ``jax.jit``, every call
    compiles again. In a loop over microbatches, take the gradient inside
    the loop, or put ``jax.checkpoint`` around the microbatch: if you
    differentiate through that loop, JAX gathers all layers before it and
    keeps them.

    Args:
        block: ``block(params, x)``: a layer. It gets its own parameters
            and gives an array like ``x``, in which a row depends on the
            same row of the input alone.
        stacked: The parameters of all layers, float32 arrays of
            ``(layers, ...)``, sharded by ``specs``.
        x: The input, float32 ``(batch, dim)``, sharded as ``P("data")``.
        specs: A spec for each array of ``stacked``: first ``None``, for
            the layers, then ``"data"`` for at most one dimension and
            ``None`` for the others.
        mesh: Mesh with Auto axes ``"data"`` and ``"model"``.

    Returns:
        The output of the last layer, float32 ``(batch, dim)``, sharded as
        ``P("data")``. Gradients of ``stacked`` are sharded by ``specs``.

    Raises:
        ValueError: From jax, if the size of ``"data"`` does not divide
            ``batch``, or a dimension that it shards.
        TypeError: From jax, if a spec names another axis than ``"data"``.

    Example:
        ``y = scan_layers(block, stacked, x, specs, mesh)``

    References:
        Zhao et al., *PyTorch FSDP: Experiences on Scaling Fully Sharded
        Data Parallel*, 2023, section 3, https://arxiv.org/abs/2304.11277
    """
    # --- solution ---
    inputs = (specs, P("data"))

    def own(shard: jax.Array, spec: P) -> Any:
        # Or jax would add up a replicated array's gradients in each turn.
        if any(spec):
            return shard
        return jax.lax.pcast(shard, "data", to="varying")

    def gather(shard: jax.Array, spec: P) -> Any:
        # In the loop, the arrays have no dimension for the layers.
        for axis, names in enumerate(spec[1:]):
            if names is not None:
                shard = jax.lax.all_gather(
                    shard, names, axis=axis, tiled=True
                )
        return shard

    # The gradient of a scan is two loops, which XLA doesn't merge.
    @partial(jax.checkpoint, prevent_cse=False)
    def layer(x: jax.Array, shards: Any) -> tuple[jax.Array, None]:
        params = jax.tree.map(gather, shards, specs)
        return block(params, x), None  # float32[batch/data,dim]

    @jax.shard_map(mesh=mesh, in_specs=inputs, out_specs=P("data"))
    def run(shards: Any, x: jax.Array) -> jax.Array:
        y, _ = jax.lax.scan(layer, x, jax.tree.map(own, shards, specs))
        return y

    y: jax.Array = run(stacked, x)  # float32[batch@data,dim]
    return y
