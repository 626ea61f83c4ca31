"""One all-gather for all arrays of a layer, and products that are kept."""

import functools

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P


def axis_of(spec):
    return list(spec).index("data") - 1 if "data" in list(spec) else None


def gather_flat(shards, axes, devices):
    """Gather the shards of all arrays as a single vector."""
    fronts = [
        jnp.moveaxis(s, a, 0) for s, a in zip(shards, axes, strict=True)
    ]
    flat = jnp.concatenate([front.ravel() for front in fronts])
    rows = jax.lax.all_gather(flat, "data")
    start = 0
    for front, axis in zip(fronts, axes, strict=True):
        part = rows[:, start : start + front.size]
        start += front.size
        shape = (devices * front.shape[0], *front.shape[1:])
        yield jnp.moveaxis(part.reshape(shape), 0, axis)


def scan_layers(block, stacked, x, specs, mesh):
    axes = [axis_of(spec) for spec in jax.tree.leaves(specs)]
    tree = jax.tree.structure(stacked)
    some = [i for i, axis in enumerate(axes) if axis is not None]

    @functools.partial(
        jax.checkpoint, policy=jax.checkpoint_policies.dots_saveable
    )
    def layer(x, shards):
        leaves = jax.tree.leaves(shards)
        new = gather_flat(
            [leaves[i] for i in some],
            [axes[i] for i in some],
            mesh.shape["data"],
        )
        for i, array in zip(some, new, strict=True):
            leaves[i] = array
        return block(tree.unflatten(leaves), x), None

    def local(shards, x):
        return jax.lax.scan(layer, x, shards)[0]

    return jax.jit(
        jax.shard_map(
            local,
            mesh=mesh,
            in_specs=(specs, P("data")),
            out_specs=P("data"),
            check_vma=False,
        )
    )(stacked, x)
