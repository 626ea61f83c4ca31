# wrong: more
"""A scan over all layers, in the hope that the compiler makes stages."""

import jax
from jax.sharding import NamedSharding, PartitionSpec as P


def pipeline_forward(block, stacked, x, mesh, count):
    if len(x) % (mesh.shape["data"] * count):
        raise ValueError(f"{len(x)} {mesh.shape['data']} {count}")
    y, _ = jax.lax.scan(lambda y, w: (block(w, y), None), x, stacked)
    rows = NamedSharding(mesh, P("data"))
    return jax.lax.with_sharding_constraint(y, rows)
