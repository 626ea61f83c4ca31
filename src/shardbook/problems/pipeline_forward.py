"""Pass microbatches through stages of layers, as GPipe does."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, PartitionSpec as P


def pipeline_forward(
    block: Callable[[Any, jax.Array], jax.Array],
    stacked: Any,
    x: jax.Array,
    mesh: Mesh,
    count: int,
) -> jax.Array:
    """Return ``x`` after all layers, ``(batch, dim)``.

    The devices along ``"model"`` are the ``S`` stages: each keeps its own
    layers, and passes what it computes on to the next stage. A device has
    ``batch / data`` rows, which enter in ``count`` microbatches, one in
    each tick, so the last microbatch leaves the last stage after
    ``count + S - 1`` ticks. A device computes in all of them, which takes
    ``(count + S - 1) / count`` times the FLOPs of its own layers for its
    own rows.

    If ``A`` are the bytes of a device's shard of ``x``, it sends
    ``A * (count + S - 1) / count`` bytes over ``"model"`` from stage to
    stage, if there are several, and ``2 * A * (S - 1) / S`` to give the
    result to all stages. The gradients send as much again. Over
    ``"data"``, the forward pass sends nothing, and the gradients of
    ``stacked`` are added up once, for all microbatches. An array that
    ``block`` closes over has its gradient added up in every layer of every
    tick; broadcast it to ``(layers, ...)`` in the step, and put it into
    ``stacked``.

    With one or several processes, call it inside your jitted step: outside
    ``jax.jit``, every call compiles again. The backward pass keeps what
    ``block`` needs for it in each tick; ``jax.checkpoint(block)`` keeps
    the block's arguments alone.

    Args:
        block: ``block(params, x)``: a layer. It gets its own parameters and
            rows in any leading shape, or a single row, and gives an array
            like ``x``, in which a row depends on the same row of the input
            alone. It may give NaN, and NaN as a gradient, for zeros or
            other rows, or for ``x`` after all layers, but not for ``x``,
            nor for ``x`` after some of the layers: while a stage waits, it
            applies its layers to rows that didn't go through those before
            it. ``block`` runs inside ``jax.shard_map``: a loop in it starts
            from ``zeros_like(x)``, not ``zeros``.
        stacked: The parameters of all layers: float32 arrays of
            ``(layers, ...)``, sharded as ``P("model")``.
        x: The input, float32 ``(batch, dim)``, sharded as ``P("data")``.
        mesh: Mesh of some or all devices, with Auto axes ``"data"`` and
            ``"model"``, whose size divides ``layers``.
        count: How many microbatches each device makes of its rows.

    Returns:
        The output of the last layer, float32 ``(batch, dim)``, sharded as
        ``P("data")``. Gradients are sharded like ``stacked`` and ``x``.

    Raises:
        ValueError: If the size of ``"data"`` times ``count`` does not
            divide ``batch``; the message names the three numbers.

    Example:
        ``y = pipeline_forward(block, stacked, x, mesh, count=32)``

    References:
        Huang et al., *GPipe: Efficient Training of Giant Neural Networks
        using Pipeline Parallelism*, 2019, section 2.2,
        https://arxiv.org/abs/1811.06965
    """
    # --- solution ---
    data, stages = mesh.shape["data"], mesh.shape["model"]
    if len(x) % (data * count):
        raise ValueError(
            f"{len(x)} rows can't be divided among {data} devices along "
            f"'data' in {count} microbatches each."
        )
    onward = [(stage, stage + 1) for stage in range(stages - 1)]

    def layer(y: jax.Array, params: Any) -> tuple[Any, None]:
        return block(params, y), None

    @jax.shard_map(
        mesh=mesh, in_specs=(P("model"), P("data")), out_specs=P("data")
    )
    def run(layers: Any, rows: jax.Array) -> Any:
        stage = jax.lax.axis_index("model")
        # Or jax would add up the devices' gradients in each tick.
        layers = jax.lax.pcast(layers, "data", to="varying")
        rows = jax.lax.pcast(rows, "model", to="varying")
        parts = rows.reshape(count, -1, *rows.shape[1:])

        def tick(arrived: jax.Array, t: jax.Array) -> Any:
            entering = parts[jnp.minimum(t, count - 1)]
            y = jnp.where(stage == 0, entering, arrived)
            y, _ = jax.lax.scan(layer, y, layers)
            return jax.lax.ppermute(y, "model", onward), y

        # Rows that block can take, for the stages that wait: not zeros.
        ticks = jnp.arange(count + stages - 1)
        _, made = jax.lax.scan(tick, parts[0], ticks)
        done = made[stages - 1 :].reshape(rows.shape)
        # Only the last stage has the result.
        done = jnp.where(stage == stages - 1, done, 0)
        return jax.lax.psum(done, "model")

    y: jax.Array = run(stacked, x)  # float32[batch@data,dim]
    return y
