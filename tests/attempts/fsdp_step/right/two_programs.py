"""A program for the gradient, and another for the update."""

import jax
from jax.sharding import PartitionSpec as P


def gathered(shard, spec):
    match tuple(spec):
        case ("data", *_):
            return jax.lax.all_gather(shard, "data", tiled=True)
        case (None, "data", *_):
            return jax.lax.all_gather(shard, "data", axis=1, tiled=True)
    return shard


def fsdp_step(loss, specs, mesh, rate):
    @jax.jit
    @jax.value_and_grad
    @jax.shard_map(mesh=mesh, in_specs=(specs, P("data")), out_specs=P())
    def slope(shards, batch):
        params = jax.tree.map(gathered, shards, specs)
        return jax.lax.pmean(loss(params, batch), "data")

    def descend(params, gradients):
        return jax.tree.map(lambda p, g: p - rate * g, params, gradients)

    descend = jax.jit(descend, donate_argnums=(0, 1))

    def step(params, batch):
        value, gradients = slope(params, batch)
        return descend(params, gradients), value

    return step
