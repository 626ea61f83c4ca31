# wrong: placement
"""Gather keys and values, and then go through them block by block."""

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P


def ring_attention(q, k, v, mesh):
    spec = P("data", "model")
    n = mesh.shape["model"]

    def local(q, k, v):
        own, size = jax.lax.axis_index("model"), q.shape[1]
        blocks = jax.lax.all_gather((k, v), "model")
        at = jnp.arange(size)

        @jax.checkpoint
        def turn(sums, block):
            number, (k, v) = block
            z = jnp.einsum(
                "bqhd,bkhd->bhqk", q, k, preferred_element_type=jnp.float32
            )
            past = number * size + at <= own * size + at[:, None]
            z = jnp.where(past, z / q.shape[-1] ** 0.5, -1e30)
            top, total, out = sums
            new = jnp.maximum(top, z.max(axis=-1, keepdims=True))
            p, old = jnp.exp(z - new), jnp.exp(top - new)
            total = total * old + p.sum(axis=-1, keepdims=True)
            out = out * old + jnp.einsum("bhqk,bkhd->bhqd", p, v)
            return (new, total, out), None

        zero = q.swapaxes(1, 2).astype(jnp.float32) * 0
        sums = zero[..., :1] - 1e30, zero[..., :1], zero
        blocks = jnp.arange(n), blocks
        (_, total, out), _ = jax.lax.scan(turn, sums, blocks)
        return (out / total).swapaxes(1, 2).astype(q.dtype)

    return jax.shard_map(local, mesh=mesh, in_specs=spec, out_specs=spec)(
        q, k, v
    )
