"""Compute grouped-query attention with its heads sharded."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, PartitionSpec as P


def attention_by_heads(
    params: dict[str, jax.Array], x: jax.Array, mesh: Mesh
) -> jax.Array:
    """Return causal grouped-query attention, ``(batch, length, dim)``.

    Query head ``i`` attends with key-value head
    ``i // (heads / kv_heads)``, and scores, which may be in the hundreds,
    are divided by the root of ``head_dim``. The heads are sharded over
    ``"model"``: each device computes its own query heads and, once, each
    key-value head that they use. The devices add up their terms of the
    output, for which a device sends ``R = 2 * (model - 1) / model * batch /
    data * length * dim * itemsize`` bytes over ``"model"``; on CPUs, the
    ``itemsize`` is 4 for bfloat16 too. The backward pass sends ``R`` again,
    for the gradient of ``x``, and adds up the gradients of replicated ``k``
    and ``v``. Over ``"data"`` it adds up those of the kernels.

    Call it inside your jitted step: outside ``jax.jit``, every call
    compiles each operation again.

    Args:
        params: Kernels, float32 or bfloat16. ``"q"`` is
            ``(dim, heads, head_dim)`` as ``P(None, "model")``, and
            ``"out"`` is ``(heads, head_dim, dim)`` as ``P("model")``.
            ``"k"`` and ``"v"`` are ``(dim, kv_heads, head_dim)``, as
            ``P(None, "model")`` if the size of ``"model"`` divides
            ``kv_heads``, and replicated, ``P()``, if not.
        x: The input, ``(batch, length, dim)``, of the same dtype, sharded
            as ``P("data")``.
        mesh: Mesh with Auto axes ``"data"``, whose size divides ``batch``,
            and ``"model"``, whose size divides ``heads``.

    Returns:
        The output, of the dtype of ``x`` and sharded as ``P("data")``.
        Gradients are sharded like ``params`` and ``x``.

    Raises:
        ValueError: If neither of ``kv_heads`` and the size of ``"model"``
            divides the other; the message names both numbers.

    Example:
        In a jitted step, ``x + attention_by_heads(params, x, mesh)``.

    References:
        Ainslie et al., *GQA: Training Generalized Multi-Query Transformer
        Models from Multi-Head Checkpoints*, 2023, section 2.2,
        https://arxiv.org/abs/2305.13245
    """
    # --- solution ---
    model, kv_heads = mesh.shape["model"], params["k"].shape[1]
    if kv_heads % model and model % kv_heads:
        raise ValueError(
            f"{kv_heads} key-value heads for {model} devices along "
            "'model': one of these numbers must divide the other."
        )
    split = kv_heads % model == 0
    kv = P(None, "model") if split else P()
    specs = {"q": P(None, "model"), "k": kv, "v": kv, "out": P("model")}

    @jax.shard_map(
        mesh=mesh, in_specs=(specs, P("data")), out_specs=P("data")
    )
    def run(params: Any, x: jax.Array) -> Any:
        k, v = params["k"], params["v"]
        if not split:
            # All queries of a device have the same key-value head.
            own = jax.lax.axis_index("model") * kv_heads // model
            k, v = (
                jax.lax.dynamic_slice_in_dim(w, own, 1, axis=1)
                for w in (k, v)
            )
        # Or q, k and v would each have a sum of x's gradient.
        x = jax.lax.pcast(x, "model", to="varying")
        project = partial(jnp.einsum, "bld,dhk->blhk", x)
        y = jax.nn.dot_product_attention(
            project(params["q"]), project(k), project(v), is_causal=True
        )  # (batch/data, length, heads/model, head_dim)
        terms = jnp.einsum("blhk,hkd->bld", y, params["out"])
        return jax.lax.psum(terms, "model")

    y: jax.Array = run(params, x)  # (batch@data, length, dim)
    return y
