"""Run a norm and an MLP while each device keeps its own tokens."""

from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, PartitionSpec as P


def sequence_parallel_block(
    params: dict[str, jax.Array], x: jax.Array, mesh: Mesh
) -> jax.Array:
    """Return ``x + gelu(rms_norm(x, scale) @ up) @ down``.

    Each device normalizes its own tokens. The two matmuls need all tokens
    of the device's rows, ``W = 4 * batch / data * length * dim`` bytes, so
    an all-gather over ``"model"`` collects them, and a reduce-scatter adds
    up the terms of the result and leaves each device its own tokens.
    Either sends ``A = W * (model - 1) / model`` bytes. The forward pass
    sends ``2 * A``, as much as one all-reduce, and a gradient ``4 * A``,
    or ``5 * A`` if the backward pass gathers again. The gradient of
    ``scale`` is a sum over all tokens, so an all-reduce over all devices
    sends ``8 * dim * (devices - 1) / devices`` bytes. The kernels'
    gradients are all-reduced over ``"data"``. With few hidden units, the
    intermediates of a gradient take at most ``4 * W + 5 * W / model``
    bytes, and four times those of the device's hidden units.

    Call it inside your jitted step: outside ``jax.jit``, every call
    compiles again.

    Args:
        params: Float32 arrays: ``"scale"``, ``(dim,)``, replicated;
            ``"up"``, ``(dim, hidden)``, sharded as ``P(None, "model")``;
            ``"down"``, ``(hidden, dim)``, sharded as ``P("model")``.
        x: The residual stream, float32 ``(batch, length, dim)``, sharded
            as ``P("data", "model")``.
        mesh: Mesh with Auto axes ``"data"`` and ``"model"``.

    Returns:
        Float32 ``(batch, length, dim)``, sharded as
        ``P("data", "model")``. ``rms_norm`` divides a token by
        ``sqrt(mean(token**2) + 1e-6)``, so a token may be zeros, and
        multiplies it by ``scale``. ``gelu`` is the tanh approximation,
        the default of ``jax.nn.gelu``. Gradients are sharded like their
        arrays.

    Raises:
        ValueError: From jax, if the size of ``"data"`` does not divide
            ``batch``, or the size of ``"model"`` does not divide
            ``length`` or ``hidden``.

    Example:
        ``y = sequence_parallel_block(params, x, mesh)``; the next block
        takes ``y`` as it is.

    References:
        Korthikanti et al., *Reducing Activation Recomputation in Large
        Transformer Models*, 2022, section 4.2.2,
        https://arxiv.org/abs/2205.05198
    """
    # --- solution ---
    tokens = P("data", "model")
    specs = {"scale": P(), "up": P(None, "model"), "down": P("model")}

    @jax.shard_map(mesh=mesh, in_specs=(specs, tokens), out_specs=tokens)
    def block(params: Any, own: Any) -> Any:
        # Before the gather, so that no device keeps others' tokens twice.
        normed = rms_norm(own, params["scale"])
        whole = jax.lax.all_gather(  # float32[batch/data,length,dim]
            normed, "model", axis=1, tiled=True
        )
        terms = jax.nn.gelu(whole @ params["up"]) @ params["down"]
        # After the sum, or x would be added once for each device.
        return own + jax.lax.psum_scatter(
            terms, "model", scatter_dimension=1, tiled=True
        )

    y: jax.Array = block(params, x)  # float32[batch@data,length@model,dim]
    return y


def rms_norm(x: jax.Array, scale: jax.Array) -> jax.Array:
    """Divide each token by the root of its mean square, and scale it."""
    square = jnp.mean(x**2, axis=-1, keepdims=True)
    return x * jax.lax.rsqrt(square + 1e-6) * scale
