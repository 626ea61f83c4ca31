# wrong: forward
"""The hidden units and the rows of down are gathered before the product."""

import jax
from jax.sharding import NamedSharding, PartitionSpec as P


def explicit_mlp(params, x):
    mesh = jax.typeof(x).sharding.mesh
    y = x
    for w in params:
        units = jax.nn.gelu(x @ w["up"])
        units = jax.reshard(units, NamedSharding(mesh, P("data", None)))
        down = jax.reshard(w["down"], NamedSharding(mesh, P(None, None)))
        y = y + units @ down
    return y
