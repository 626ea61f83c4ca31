import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P


def mixed_precision_step(loss, rate, mesh):
    """Add up the gradients of single rows in float32, then of devices."""
    n = mesh.shape["data"]

    def local(shards, batch):
        whole = jax.tree.map(
            lambda p: jax.lax.all_gather(
                p.astype(jnp.bfloat16), "data", tiled=True
            ),
            shards,
        )
        count = len(jax.tree.leaves(batch)[0])

        def add(sums, row):
            one = jax.tree.map(lambda leaf: leaf[None], row)
            terms = jax.value_and_grad(loss)(whole, one)
            return jax.tree.map(lambda s, t: s + t, sums, terms), None

        zeros = (
            jnp.zeros(()),
            jax.tree.map(lambda p: jnp.zeros(p.shape, jnp.float32), whole),
        )
        (value, sums), _ = jax.lax.scan(add, zeros, batch)
        total = jax.tree.map(
            lambda g: jax.lax.psum_scatter(g, "data", tiled=True), sums
        )
        new = jax.tree.map(
            lambda p, g: p - rate * g / (n * count), shards, total
        )
        return new, jax.lax.pmean(value / count, "data")

    step = jax.shard_map(
        local,
        mesh=mesh,
        in_specs=(P("data"), P("data")),
        out_specs=(P("data"), P()),
        check_vma=False,
    )
    return jax.jit(step, donate_argnums=0)
