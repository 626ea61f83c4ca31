"""Keep the own keys and values alone, and send all once more backward."""

from functools import partial

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P


def ring_attention(q, k, v, mesh):
    n = mesh.shape["model"]
    ring = [(i, (i + 1) % n) for i in range(n)]
    send = partial(jax.lax.ppermute, axis_name="model", perm=ring)

    def scores(q, k, hop):
        own, size = jax.lax.axis_index("model"), q.shape[1]
        columns = (own - hop) % n * size + jnp.arange(size)
        rows = own * size + jnp.arange(size)
        z = jnp.einsum("bqhd,bkhd->bhqk", q, k).astype(jnp.float32)
        if q.dtype != jnp.float32:
            z = scores(q.astype(jnp.float32), k.astype(jnp.float32), hop)
        return jnp.where(columns <= rows[:, None], z, -1e30)

    def forward(q, k, v):
        scaled = q / q.shape[-1] ** 0.5

        def turn(carry, hop):
            (k, v), (top, total, out) = carry
            z = scores(scaled, k, hop)
            new = jnp.maximum(top, z.max(axis=-1, keepdims=True))
            p, old = jnp.exp(z - new), jnp.exp(top - new)
            total = total * old + p.sum(axis=-1, keepdims=True)
            out = out * old + jnp.einsum("bhqk,bkhd->bhqd", p, v)
            return (k, v), (new, total, out)

        def body(carry, hop):
            (k, v), sums = turn(carry, hop)
            return (send((k, v)), sums), None

        zero = jnp.swapaxes(q, 1, 2).astype(jnp.float32) * 0
        sums = zero[..., :1] - 1e30, zero[..., :1], zero
        carry, _ = jax.lax.scan(body, ((k, v), sums), jnp.arange(n - 1))
        _, (top, total, out) = turn(carry, n - 1)
        out = out / total
        y = jnp.swapaxes(out, 1, 2).astype(q.dtype)
        return y, (q, k, v, out, top + jnp.log(total))

    def backward(kept, slope):
        q, k, v, out, log = kept
        scale = q.shape[-1] ** -0.5
        slope = jnp.swapaxes(slope, 1, 2)
        mean = (slope * out).sum(axis=-1, keepdims=True)

        def slopes(k, v, hop):
            p = jnp.exp(scores(q * scale, k, hop) - log)
            of_p = jnp.einsum("bhqd,bkhd->bhqk", slope, v)
            of_z = p * (of_p - mean) * scale
            of_q = jnp.einsum("bhqk,bkhd->bqhd", of_z, k)
            of_k = jnp.einsum("bhqk,bqhd->bkhd", of_z, q)
            return of_q, (of_k, jnp.einsum("bhqk,bhqd->bkhd", p, slope))

        def turn(carry, hop):
            (k, v), of_q, of_kv = carry
            (k, v), of_kv = send(((k, v), of_kv))
            more, those = slopes(k, v, hop)
            of_kv = jax.tree.map(jnp.add, of_kv, those)
            return ((k, v), of_q + more, of_kv), None

        carry = (k, v), *slopes(k, v, 0)
        (_, of_q, of_kv), _ = jax.lax.scan(turn, carry, jnp.arange(1, n))
        return of_q, *send(of_kv)

    @jax.custom_vjp
    def local(q, k, v):
        return forward(q, k, v)[0]

    local.defvjp(forward, backward)
    spec = P("data", "model")
    return jax.shard_map(local, mesh=mesh, in_specs=spec, out_specs=spec)(
        q, k, v
    )
