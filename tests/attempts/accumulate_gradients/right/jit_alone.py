import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec


def accumulate_gradients(loss, mesh, count):
    """Give each device a dimension of its own, and add it up at the end."""
    devices = mesh.shape["data"]
    by_device = NamedSharding(mesh, PartitionSpec("data"))
    everywhere = NamedSharding(mesh, PartitionSpec())

    def cut(x):
        if len(x) % (devices * count):
            raise ValueError(
                f"{len(x)=} does not divide by {devices=} times {count=}"
            )
        parts = x.reshape(devices, count, -1, *x.shape[1:])
        return jax.lax.with_sharding_constraint(parts, by_device)

    @jax.jit
    def run(params, batch):
        def of_one_device(parts):
            def turn(i, total):
                part = jax.tree.map(lambda x: x[i], parts)
                new = jax.value_and_grad(loss)(params, part)
                return jax.tree.map(jnp.add, total, new)

            start = jax.tree.map(
                lambda p: jnp.zeros(p.shape), (jnp.zeros(()), params)
            )
            return jax.lax.fori_loop(0, count, turn, start)

        sums = jax.vmap(of_one_device)(jax.tree.map(cut, batch))
        value, grads = jax.tree.map(lambda x: x.mean(axis=0) / count, sums)
        grads = jax.tree.map(lambda g, p: g.astype(p.dtype), grads, params)
        return jax.lax.with_sharding_constraint((value, grads), everywhere)

    return run
