# wrong: over_data
"""Stages under vmap, and an array that is rolled: sums in each tick."""

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

    def stage(layers, y):
        def layer(y, params):
            return jax.vmap(lambda rows: block(params, rows))(y), None

        return jax.lax.scan(layer, y, layers)[0]

    layers = jax.tree.map(
        lambda leaf: leaf.reshape(stages, -1, *leaf.shape[1:]), stacked
    )
    parts = x.reshape(data, count, -1, *x.shape[1:]).swapaxes(0, 1)
    parts = place(parts, None, "data")
    places = jnp.arange(stages)[:, None, None, None]

    def tick(arrived, t):
        y = jnp.where(
            places == 0, parts[jnp.minimum(t, count - 1)], arrived
        )
        y = place(jax.vmap(stage)(layers, y), "model", "data")
        return place(jnp.roll(y, 1, axis=0), "model", "data"), y

    first = jnp.broadcast_to(parts[0], (stages, *parts[0].shape))
    first = place(first, "model", "data")
    _, made = jax.lax.scan(tick, first, jnp.arange(count + stages - 1))
    done = jnp.where(places == stages - 1, made[stages - 1 :], 0).sum(
        axis=1
    )
    done = place(done, None, "data")
    return place(done.swapaxes(0, 1).reshape(x.shape), "data")
