"""The gradient is taken outside of shard_map, of whole arrays."""

from functools import partial

import jax
from jax.sharding import NamedSharding, PartitionSpec as P


def fsdp_step(loss, specs, mesh, rate):
    @jax.shard_map(mesh=mesh, in_specs=(specs, P("data")), out_specs=P())
    def whole_loss(shards, batch):
        params = []
        shards, treedef = jax.tree.flatten(shards)
        for shard, spec in zip(shards, jax.tree.leaves(specs), strict=True):
            for axis, name in enumerate(spec):
                if name == "data":
                    shard = jax.lax.all_gather(
                        shard, name, axis=axis, tiled=True
                    )
            params.append(shard)
        value = loss(jax.tree.unflatten(treedef, params), batch)
        return jax.lax.psum(value, "data") / mesh.shape["data"]

    layout = jax.tree.map(lambda spec: NamedSharding(mesh, spec), specs)

    @partial(
        jax.jit,
        donate_argnames="params",
        out_shardings=(layout, NamedSharding(mesh, P())),
    )
    def step(params, batch):
        value, grads = jax.value_and_grad(whole_loss)(params, batch)
        return jax.tree.map(lambda p, g: p - rate * g, params, grads), value

    return step
