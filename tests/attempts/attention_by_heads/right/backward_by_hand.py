"""Forward and backward pass, each in a shard_map without checks."""

from functools import partial

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P


def terms(split, model, params, x):
    q, k, v, out = (params[name] for name in ("q", "k", "v", "out"))
    if not split:
        own = jax.lax.axis_index("model") // (model // k.shape[1])
        k, v = (jnp.take(w, own[None], axis=1) for w in (k, v))
    batch, length, dim = x.shape
    rows = x.reshape(-1, dim)

    def heads(kernel):
        flat = rows @ kernel.reshape(dim, -1)
        return flat.reshape(batch, length, *kernel.shape[1:])

    y = jax.nn.dot_product_attention(
        heads(q), heads(k), heads(v), is_causal=True
    )
    return jnp.tensordot(y, out, 2)


def attention_by_heads(params, x, mesh):
    model, kv_heads = mesh.shape["model"], params["k"].shape[1]
    split = kv_heads % model == 0
    if not split and model % kv_heads:
        raise ValueError(f"can't share {kv_heads} heads among {model}")
    kv = P(None, "model") if split else P()
    specs = {"q": P(None, "model"), "k": kv, "v": kv, "out": P("model")}
    both = (specs, P("data"))
    on_mesh = partial(jax.shard_map, mesh=mesh, check_vma=False)
    local = partial(terms, split, model)

    def forward(params, x):
        return jax.lax.psum(local(params, x), "model")

    def backward(params, x, slope):
        of_params, of_x = jax.vjp(local, params, x)[1](slope)
        summed = {}
        for name, each in of_params.items():
            whole = name in "kv" and not split
            axes = ("data", "model") if whole else ("data",)
            summed[name] = jax.lax.psum(each, axes)
        return summed, jax.lax.psum(of_x, "model")

    first = on_mesh(forward, in_specs=both, out_specs=P("data"))
    second = on_mesh(backward, in_specs=(*both, P("data")), out_specs=both)

    @jax.custom_vjp
    def attention(params, x):
        return first(params, x)

    attention.defvjp(
        lambda params, x: (first(params, x), (params, x)),
        lambda kept, slope: second(*kept, slope),
    )
    return attention(params, x)
