"""A scan under jit, where constraints shard and gather each layer."""

import jax
from jax.lax import with_sharding_constraint
from jax.sharding import NamedSharding, PartitionSpec as P


def scan_layers(block, stacked, x, specs, mesh):
    whole = NamedSharding(mesh, P())
    rows = NamedSharding(mesh, P("data"))
    shardings = jax.tree.map(
        lambda spec: NamedSharding(mesh, P(*spec[1:])), specs
    )

    @jax.checkpoint
    def layer(x, params):
        # The transpose of the first constraint shards the gradient.
        params = with_sharding_constraint(params, shardings)
        params = with_sharding_constraint(params, whole)
        return with_sharding_constraint(block(params, x), rows), None

    return jax.lax.scan(layer, x, stacked)[0]
