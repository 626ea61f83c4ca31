"""Compute attention while keys and values travel around a ring."""

from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, PartitionSpec as P


def ring_attention(
    q: jax.Array, k: jax.Array, v: jax.Array, mesh: Mesh
) -> jax.Array:
    """Return causal attention, a block of keys and values at a time.

    Scores are divided by the root of ``head_dim``, and a token attends to
    itself and to the tokens before it. Each device keeps its own queries.
    Blocks of keys and values go from device to device along ``"model"``,
    and each device merges what it computes of a block into a running
    maximum, sum and output.

    A block of keys, or of values, takes ``A = batch / data * length /
    model * heads * head_dim * itemsize`` bytes, and a block of scores ``S =
    4 * batch / data * heads * (length / model)**2`` bytes. A device sends
    at most ``2 * (model - 1) * A + 64`` bytes for the output, and ``4 *
    (model - 1) * A + 64`` with the gradients. On CPU, intermediates take
    less than ``8 * A + 4 * S`` bytes for the output in float32, whatever
    the size of ``"model"``, unless that is only a few kB.
    For the gradients, a device also keeps the keys and values of all
    devices, ``2 * model * A`` bytes in each layer. With
    ``jax.checkpoint`` around each layer of a ``jax.lax.scan``, only one
    layer does at a time, and a device sends ``6 * (model - 1) * A``
    bytes. On CPU, XLA sends and holds bfloat16 as float32. The matrix
    products are those of attention without a mask.

    With one or several processes, call it inside your jitted step: outside
    ``jax.jit``, every call compiles again.

    Args:
        q: Queries, float32 or bfloat16 ``(batch, length, heads,
            head_dim)``, sharded as ``P("data", "model")``.
        k: Keys, with the shape, dtype and sharding of ``q``.
        v: Values, likewise.
        mesh: Mesh with Auto axes ``"data"`` and ``"model"``.

    Returns:
        Attention with the shape, dtype and sharding of ``q``. In the
        forward pass, scores and sums are float32, also for bfloat16
        arrays, and scores may be in the thousands. The exponentials that
        multiply ``v`` may have its dtype. Gradients have the dtype and the
        sharding of their arrays, and are added up in this dtype.

    Raises:
        ValueError: From jax, if the size of ``"data"`` does not divide
            ``batch``, or the size of ``"model"`` does not divide
            ``length``.

    Example:
        In a jitted step, ``y = ring_attention(q, k, v, mesh)``.

    References:
        Liu et al., *Ring Attention with Blockwise Transformers for
        Near-Infinite Context*, 2023, section 3,
        https://arxiv.org/abs/2310.01889
    """
    # --- solution ---
    n, spec = mesh.shape["model"], P("data", "model")
    ring = [(i, (i + 1) % n) for i in range(n)]

    @jax.shard_map(mesh=mesh, in_specs=spec, out_specs=spec)
    def run(q: Any, k: Any, v: Any) -> Any:
        own, size = jax.lax.axis_index("model"), q.shape[1]
        rows = own * size + jnp.arange(size)[:, None]

        # Or the backward pass would keep every block of scores.
        @jax.checkpoint
        def attend(sums: Any, k: Any, v: Any, hop: Any) -> Any:
            top, total, out = sums
            # After so many hops, the block is that of device own - hop.
            columns = (own - hop) % n * size + jnp.arange(size)
            scores = jnp.einsum(  # float32[batch/data,heads,size,size]
                "bqhd,bkhd->bhqk", q, k, preferred_element_type=jnp.float32
            )
            # Finite: infinity makes NaN of a row that has seen nothing. If
            # another mask hides all from a row, mask its result, too: it
            # is the mean of all values, with those of later tokens.
            scores = jnp.where(
                columns <= rows, scores / q.shape[-1] ** 0.5, -1e30
            )
            # The maximum cancels out, and so does its derivative.
            new = jax.lax.stop_gradient(
                jnp.maximum(top, scores.max(axis=-1, keepdims=True))
            )
            old, weights = jnp.exp(top - new), jnp.exp(scores - new)
            term = jnp.einsum(
                "bhqk,bkhd->bhqd",
                weights.astype(v.dtype),
                v,
                preferred_element_type=jnp.float32,
            )
            total = total * old + weights.sum(axis=-1, keepdims=True)
            return new, total, out * old + term

        def turn(carry: Any, hop: Any) -> Any:
            sums, k, v = carry
            # Sent from here, a block can travel while it is used.
            following = jax.lax.ppermute((k, v), "model", ring)
            return (attend(sums, k, v, hop), *following), None

        out = q.swapaxes(1, 2) * jnp.float32(0)  # varies like q
        # With a derivative, the scan would keep every total and out.
        top = jax.lax.stop_gradient(out[..., :1]) - 1e30
        sums = top, out[..., :1], out
        carry, _ = jax.lax.scan(turn, (sums, k, v), jnp.arange(n - 1))
        _, total, out = attend(*carry, n - 1)  # the last is not sent on
        return (out / total).swapaxes(1, 2).astype(q.dtype)

    y: jax.Array = run(q, k, v)
    return y
