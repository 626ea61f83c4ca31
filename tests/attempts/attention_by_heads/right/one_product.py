"""One product for q, k and v of a device, and a softmax by hand."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as P


class Attention:
    def __init__(self, heads, kv_heads, mesh):
        self.mesh, self.model = mesh, mesh.shape["model"]
        self.kv_heads = kv_heads
        if kv_heads >= self.model:
            ok = kv_heads % self.model == 0
        else:
            ok = self.model % kv_heads == 0
        if not ok:
            raise ValueError(f"{kv_heads} heads, {self.model} devices")
        self.shared = kv_heads < self.model
        self.group = heads // kv_heads

    def mine(self, kernel):
        if not self.shared:
            return kernel
        each = self.model // self.kv_heads
        number = jax.lax.axis_index("model") // each
        own = (jnp.arange(self.kv_heads) == number).astype(kernel.dtype)
        return jnp.tensordot(kernel, own, [[1], [0]])[:, None]

    def local(self, params, x):
        k, v = self.mine(params["k"]), self.mine(params["v"])
        kernels = [params["q"], k, v]
        size = [kernel.shape[1] for kernel in kernels]
        fused = jnp.concatenate(kernels, axis=1)
        parts = jnp.einsum("bld,dhk->hblk", x, fused)
        q, k, v = jnp.split(parts, np.cumsum(size)[:-1])
        terms = 0.0
        for head in range(size[0]):
            attended = one_head(q[head], *self.shared_by(head, size, k, v))
            terms += attended @ params["out"][head]
        return jax.lax.psum(terms, "model")

    def shared_by(self, head, size, k, v):
        number = head * size[1] // size[0]
        return k[number], v[number]


def one_head(q, k, v):
    scores = q @ k.mT / np.sqrt(q.shape[-1])
    rows = jnp.arange(scores.shape[-1])
    scores = jnp.where(rows <= rows[:, None], scores, -jnp.inf)
    return jax.nn.softmax(scores, axis=-1) @ v


def attention_by_heads(params, x, mesh):
    heads, kv_heads = params["q"].shape[1], params["k"].shape[1]
    attention = Attention(heads, kv_heads, mesh)
    kv = P() if attention.shared else P(None, "model")
    specs = {"out": P("model"), "q": P(None, "model"), "k": kv, "v": kv}
    on_mesh = jax.shard_map(
        attention.local,
        mesh=mesh,
        in_specs=(specs, P("data")),
        out_specs=P("data"),
    )
    return on_mesh(params, x)
