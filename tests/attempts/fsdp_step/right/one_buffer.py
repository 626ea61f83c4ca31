"""All shards in one array, which is gathered and scattered at once."""

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P


def fsdp_step(loss, specs, mesh, rate):
    n = mesh.shape["data"]

    def gather(shards):
        leaves, treedef = jax.tree.flatten(shards)
        axes = [
            spec.index("data") if "data" in spec else None
            for spec in jax.tree.leaves(specs)
        ]
        pairs = list(zip(leaves, axes, strict=True))
        mine = [x.ravel() for x, axis in pairs if axis is not None]
        rows = jax.lax.all_gather(jnp.concatenate(mine), "data")
        start, whole = 0, []
        for leaf, axis in pairs:
            if axis is None:
                whole.append(leaf)
                continue
            part = rows[:, start : start + leaf.size]
            parts = part.reshape(n, *leaf.shape)
            whole.append(jnp.concatenate([*parts], axis=axis))
            start += leaf.size
        return treedef.unflatten(whole)

    def step(shards, batch):
        def part_of_the_mean(shards):
            return loss(gather(shards), batch) / n

        value, gradients = jax.value_and_grad(part_of_the_mean)(shards)
        shards = jax.tree.map(lambda p, g: p - rate * g, shards, gradients)
        return shards, jax.lax.psum(value, "data")

    on_mesh = jax.shard_map(
        step, mesh=mesh, in_specs=(specs, P("data")), out_specs=(specs, P())
    )
    return jax.jit(on_mesh, donate_argnums=(0,))
