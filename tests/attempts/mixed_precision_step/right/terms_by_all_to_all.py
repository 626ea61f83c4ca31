import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P


def mixed_precision_step(loss, rate, mesh):
    """Send bfloat16 terms, and add them up in float32 where they arrive."""
    n = mesh.shape["data"]

    def local(shards, batch):
        half = jax.tree.map(lambda p: p.astype(jnp.bfloat16), shards)
        whole = jax.tree.map(
            lambda p: jax.lax.all_gather(p, "data", tiled=True), half
        )
        value, gradients = jax.value_and_grad(loss)(whole, batch)

        def descend(p, g):
            parts = g.reshape(n, *p.shape)
            terms = jax.lax.all_to_all(parts, "data", 0, 0)
            return p - rate * terms.astype(jnp.float32).mean(axis=0)

        new = jax.tree.map(descend, shards, gradients)
        return new, jax.lax.psum(value, "data") / n

    step = jax.shard_map(
        local,
        mesh=mesh,
        in_specs=(P("data"), P("data")),
        out_specs=(P("data"), P()),
    )
    return jax.jit(step, donate_argnums=0)
