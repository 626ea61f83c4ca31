"""Constraints alone: heads by device, and one product for q, k and v."""

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P


def attention_by_heads(params, x, mesh):
    model = mesh.shape["model"]
    heads = params["q"].shape[1] // model
    kv_heads = max(1, params["k"].shape[1] // model)
    if kv_heads * model % params["k"].shape[1]:
        names = f"kv_heads={params['k'].shape[1]} and model={model}"
        raise ValueError(f"{names}: neither divides the other")

    def place(array, *spec):
        sharding = NamedSharding(mesh, P(*spec))
        return jax.lax.with_sharding_constraint(array, sharding)

    def by_device(kernel, count):
        dim, _, head_dim = kernel.shape
        kernel = kernel.reshape(dim, model, count, head_dim)
        return place(kernel, None, "model")

    k, v = params["k"], params["v"]
    shared = kv_heads * model // k.shape[1]
    if shared > 1:
        k, v = (jnp.repeat(w, shared, axis=1) for w in (k, v))
    kernels = (
        by_device(params["q"], heads),
        by_device(k, kv_heads),
        by_device(v, kv_heads),
    )
    kernel = place(jnp.concatenate(kernels, axis=2), None, "model")
    qkv = place(jnp.einsum("bld,dmhk->bmlhk", x, kernel), "data", "model")
    q, k, v = jnp.split(qkv, [heads, heads + kv_heads], axis=3)
    y = jax.vmap(
        lambda *each: jax.nn.dot_product_attention(*each, is_causal=True),
        in_axes=1,
        out_axes=1,
    )(q, k, v)
    out = params["out"]
    out = place(out.reshape(model, heads, *out.shape[1:]), "model")
    return place(jnp.einsum("bmlhk,mhkd->bld", y, out), "data")
