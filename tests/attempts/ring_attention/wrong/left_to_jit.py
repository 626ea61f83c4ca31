# wrong: rows
"""Leave all to the compiler, which gathers keys and values."""

import jax
from jax.sharding import NamedSharding, PartitionSpec as P


def ring_attention(q, k, v, mesh):
    y = jax.nn.dot_product_attention(q, k, v, is_causal=True)
    sharding = NamedSharding(mesh, P("data", "model"))
    return jax.lax.with_sharding_constraint(y, sharding)
