# wrong: permutes
"""Stages under vmap, with copies of the layers, but not of the rows."""

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P


def pipeline_forward(block, stacked, x, mesh, count):
    data, stages = mesh.shape["data"], mesh.shape["model"]
    if len(x) % (data * count):
        raise ValueError(f"{len(x)} rows, {data} devices, {count} parts")

    def place(array, *spec):
        sharding = NamedSharding(mesh, P(*spec))
        return jax.lax.with_sharding_constraint(array, sharding)

    def plain(layers, y):
        return jax.lax.scan(lambda y, p: (block(p, y), None), y, layers)[0]

    def copies(leaf):
        leaf = jnp.broadcast_to(leaf, (data, *leaf.shape))
        leaf = place(leaf, "data", "model")
        leaf = leaf.reshape(data, stages, -1, *leaf.shape[2:])
        return place(leaf.swapaxes(0, 1), "model", "data")

    layers = jax.tree.map(copies, stacked)
    parts = place(x.reshape(data, count, -1, x.shape[1]), "data")
    parts = parts.swapaxes(0, 1)
    stage = jnp.arange(stages)[:, None, None, None]

    def tick(arrived, t):
        entering = parts[jnp.minimum(t, count - 1)]
        y = jnp.where(stage == 0, entering, arrived)
        y = place(jax.vmap(jax.vmap(plain))(layers, y), "model", "data")
        return place(jnp.roll(y, 1, axis=0), "model", "data"), y

    start = jnp.broadcast_to(parts[0], (stages, *parts[0].shape))
    start = place(start, "model", "data")
    _, made = jax.lax.scan(tick, start, jnp.arange(count + stages - 1))
    done = jnp.where(stage == stages - 1, made[stages - 1 :], 0).sum(axis=1)
    return place(done.swapaxes(0, 1).reshape(x.shape), "data")
