"""Constraints alone: stages under vmap, and an array that is shifted."""

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

    def by_stage(leaf):
        leaf = leaf.reshape(stages, -1, *leaf.shape[1:])
        # A copy for the rows of each device, so that their gradients are
        # added up after the ticks.
        leaf = jnp.broadcast_to(leaf, (data, *leaf.shape))
        return place(leaf, "data", "model")

    def stage(layers, y):
        return jax.lax.scan(lambda y, p: (block(p, y), None), y, layers)[0]

    layers = jax.tree.map(by_stage, stacked)
    on_all = jax.vmap(jax.vmap(stage))
    parts = place(x.reshape(data, count, -1, *x.shape[1:]), "data")
    # The same for the rows, whose gradients stages add up after the ticks.
    shape = (count, data, stages, *parts.shape[2:])
    parts = jnp.broadcast_to(parts.swapaxes(0, 1)[:, :, None], shape)
    parts = place(parts, None, "data", "model")
    places = jnp.arange(stages)[:, None, None]

    def tick(arrived, t):
        y = jnp.where(
            places == 0, parts[jnp.minimum(t, count - 1)], arrived
        )
        y = place(
            on_all(layers, place(y, "data", "model")), "data", "model"
        )
        onward = jnp.pad(y[:, :-1], ((0, 0), (1, 0), (0, 0), (0, 0)))
        return place(onward, "data", "model"), y

    ticks = jnp.arange(count + stages - 1)
    _, made = jax.lax.scan(tick, parts[0], ticks)
    done = jnp.where(places == stages - 1, made[stages - 1 :], 0).sum(
        axis=2
    )
    return place(done.swapaxes(0, 1).reshape(x.shape), "data")
