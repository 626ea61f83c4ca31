"""Each device asks for its rows."""

import jax
from jax.sharding import NamedSharding, PartitionSpec as P


def place_batch(batch, mesh):
    sharding = NamedSharding(mesh, P("data"))

    def place(leaf):
        return jax.make_array_from_callback(
            leaf.shape, sharding, lambda index: leaf[index]
        )

    return jax.tree.map(place, batch)
